"""A text sentence by sentence: its colours, its verdicts, and the way to them with the keys."""

import re
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, expect

from tests.browser.routes import heard, questions
from tests.browser.test_accessibility import violations
from tests.browser.visits import NARROW, Visit, percent, window
from tests.builders import tiny_checkpoint, tiny_config
from tests.end_to_end.servers import RunningService, local_service

TEXT = (
    "The plot drags \U0001f634, and the first half is a chore. But the cast is superb!  "
    "I laughed \U0001f602 out loud.\n\nPerhaps I would see it again."
)
PARTS = [
    "The plot drags \U0001f634, and the first half is a chore.",
    "But the cast is superb!",
    "I laughed \U0001f602 out loud.",
    "Perhaps I would see it again.",
]


def described(number: int, sentence: dict[str, Any]) -> str:
    """All that the page says of a sentence."""
    ranked = sorted(sentence["probabilities"].items(), key=lambda pair: -pair[1])
    shares = ", ".join(f"{label} {percent(share)}" for label, share in ranked)
    return f"Sentence {number}: {shares}"


def sentences_of(answer: dict[str, Any], at: int = 0) -> list[dict[str, Any]]:
    """What the service says of the sentences of a text."""
    found: list[dict[str, Any]] = answer["predictions"][at]["sentences"]
    return found


def test_each_sentence_is_shown_with_its_own_verdict(visit: Visit) -> None:
    answer = heard(visit, lambda: visit.ask(TEXT))

    assert answer["asked"] == {"sentences": [TEXT], "on_error": "item", "granularity": "sentence"}
    sentences = sentences_of(answer)
    assert {sentence["label"] for sentence in sentences} == {"negative", "positive"}
    assert visit.part(".passage").text_content() == TEXT
    assert visit.part(".sentence").all_text_contents() == PARTS
    assert visit.part(".sentence").evaluate_all("spans => spans.map(span => span.title)") == [
        described(number, sentence) for number, sentence in enumerate(sentences, 1)
    ]
    assert visit.part(".verdicts button").all_inner_texts() == [
        f"{number} {sentence['label']} {percent(sentence['score'])}"
        for number, sentence in enumerate(sentences, 1)
    ]
    scores = visit.part(".verdicts .figure").evaluate_all("all => all.map(one => one.title)")
    assert [float(score) for score in scores] == [sentence["score"] for sentence in sentences]


@pytest.mark.parametrize("text", ["A superb film.", "“A superb film!” …", "a superb film (1.)\n"])
def test_one_sentence_is_not_divided(visit: Visit, text: str) -> None:
    paths = questions(visit)
    visit.ask(text)
    assert paths == ["/attention"]
    assert visit.part(".sentences").is_hidden()


def looks(visit: Visit, selector: str) -> list[list[str]]:
    """Background, style of the line and its colour, of each element."""
    found: list[list[str]] = visit.part(selector).evaluate_all(
        """all => all.map((one) => {
          const style = getComputedStyle(one);
          return [style.backgroundColor, style.textDecorationStyle, style.textDecorationColor];
        })"""
    )
    return found


def test_the_colour_is_of_the_label_and_as_strong_as_the_probability(visit: Visit) -> None:
    sentences = sentences_of(heard(visit, lambda: visit.ask(TEXT)))

    expected = []
    for sentence in sentences:
        # The browser keeps 255 steps of it, and returns two digits.
        alpha = 0.08 + 0.32 * (2 * sentence["score"] - 1)
        colour, line = {"negative": ("176, 74, 0", "dashed"), "positive": ("29, 91, 184", "solid")}[
            sentence["label"]
        ]
        expected.append([colour, pytest.approx(alpha, abs=0.006), line, f"rgb({colour})"])
    shown = []
    for background, line, stroke in looks(visit, ".sentence"):
        match = re.fullmatch(r"rgba\((\d+, \d+, \d+), ([\d.]+)\)", background)
        assert match is not None, background
        shown.append([match[1], float(match[2]), line, stroke])
    assert shown == expected
    assert looks(visit, ".verdicts .name") == looks(visit, ".sentence")


@pytest.mark.parametrize(
    ("labels", "lines"),
    [
        (("negative", "neutral", "positive"), ["dashed", "dotted", "solid"]),
        (("one", "two", "three", "four"), ["solid", "dashed", "dotted", "double"]),
    ],
)
def test_any_labels_have_colours_and_lines_of_their_own(
    browser: Browser, tmp_path: Path, labels: tuple[str, ...], lines: list[str]
) -> None:
    folder = tiny_checkpoint(tmp_path / "tiny", config=tiny_config(labels=labels))
    with local_service(folder, tmp_path) as running, window(browser, running.url) as visit:
        answer = heard(visit, lambda: visit.ask("a good film. it is bad! love the cast? dull"))

        assert visit.part(".legend .key").all_inner_texts() == list(labels)
        keys = looks(visit, ".legend .key")
        assert [line for _, line, _ in keys] == lines
        assert len({colour for *_, colour in keys}) == len(labels)
        style = {label: look[1:] for label, look in zip(labels, keys, strict=True)}
        assert [look[1:] for look in looks(visit, ".sentence")] == [
            style[sentence["label"]] for sentence in sentences_of(answer)
        ]
        assert violations(visit) == []


def test_the_verdicts_are_walked_through_and_heard(visit: Visit) -> None:
    sentences = sentences_of(heard(visit, lambda: visit.ask(TEXT)))
    page, status = visit.page, visit.page.get_by_role("status")
    visit.part(".passage").focus()
    page.keyboard.press("Tab")
    buttons = visit.part(".verdicts button")
    expect(buttons.first).to_be_focused()

    for key, at in (("ArrowRight", 1), ("End", 3), ("ArrowLeft", 2), ("Home", 0)):
        page.keyboard.press(key)
        expect(buttons.nth(at)).to_be_focused()
        assert status.inner_text() == described(at + 1, sentences[at])
        assert visit.part(".said").inner_text() == described(at + 1, sentences[at])
        assert visit.part(".pointed").all_text_contents() == [PARTS[at]]
        expect(visit.part(".verdicts button[aria-pressed=true]")).to_have_count(1)

    page.keyboard.press("Escape")
    assert visit.part(".pointed").count() == 0
    assert visit.part(".said").inner_text().startswith("Point at a sentence")
    page.keyboard.press("Tab")
    expect(visit.part(".cell button[aria-pressed=true]")).to_be_focused()


def test_two_texts_are_divided_by_one_request(visit: Visit) -> None:
    texts = ["The staff was friendly. The soup was cold.", "The staff was rude."]
    answer = heard(visit, lambda: visit.ask(*texts))

    assert answer["asked"]["sentences"] == texts
    assert visit.part(".sentence", 0).all_text_contents() == [
        "The staff was friendly.",
        "The soup was cold.",
    ]
    assert visit.part(".sentences", 1).is_hidden()
    assert visit.part(".passage", 0).get_attribute("aria-label") == (
        "First sentence: the text by sentence"
    )


def test_it_can_be_switched_off_and_on(visit: Visit) -> None:
    visit.ask(TEXT)
    box = visit.page.get_by_label("Sentence by sentence")
    paths = questions(visit)
    with visit.redrawn():
        box.uncheck()
    assert visit.part(".sentences").is_hidden()
    assert paths == ["/attention"]
    assert visit.page.get_by_label("Link", exact=True).input_value().endswith("&sentences=off")

    with visit.redrawn():
        box.check()
    assert visit.part(".sentence").all_text_contents() == PARTS


def test_more_sentences_than_are_shown_leave_the_rest(visit_limited: Visit) -> None:
    visit = visit_limited
    answer = heard(visit, lambda: visit.ask("a good film. it is bad. dull"))

    reason = answer["predictions"][0]["error"]["errors"][0]["msg"]
    assert visit.part(".legend").inner_text() == f"The sentences are not shown: {reason}."
    for selector in (".passage", ".verdicts", ".said"):
        assert visit.part(selector).is_hidden()
    assert visit.part(".cell button").count() == 4
    assert violations(visit) == []


def test_a_long_text_scrolls_in_its_frame(browser: Browser, running: RunningService) -> None:
    with window(browser, running.url, width=NARROW) as visit:
        visit.open("#reduce=mean&layers=0")
        visit.ask(" ".join(PARTS * 8))
        passage = visit.part(".passage")
        assert passage.evaluate("part => part.clientHeight < part.scrollHeight")
        visit.part(".verdicts button").first.focus()
        visit.page.keyboard.press("End")
        last = visit.part(".sentence").last
        assert last.evaluate(
            """(span) => {
              const [part, frame] = [span, span.parentElement].map(
                (one) => one.getBoundingClientRect());
              return part.top >= frame.top && part.bottom <= frame.bottom;
            }"""
        )
