"""A text: its verdict first, then what leaving out each word or sentence changes, and trials."""

from typing import Any

import httpx
import pytest
from playwright.sync_api import Locator, Route, expect

from tests.browser.routes import body_of, heard, refuse
from tests.browser.visits import Visit, explained, percent, read

TEXT = "The plot drags, but the cast is superb."
WORDS = TEXT.split()
TWICE = "A superb film. A superb cast. A wonderful, lovely story that I loved."
LONG = "The plot drags, and it is a chore. The cast \U0001f602 is fine! " * 7


def part(visit: Visit, selector: str) -> Locator:
    return visit.page.locator("#answer").locator(selector)


def reasons(client: httpx.Client, text: str, level: str) -> dict[str, Any]:
    fields = {"method": "leave_out", "level": level, "truncation": "window"}
    answer: dict[str, Any] = client.post("/attributions", json={"sentence": text, **fields}).json()
    return answer


def whole(share: float) -> str:
    """A share as the page says it in a sentence."""
    if share > 0.99:
        return "over 99 %"
    return "under 1 %" if share < 0.01 else f"{100 * share:.0f} %"


def test_the_verdict_and_its_classes_are_the_services(visit: Visit, client: httpx.Client) -> None:
    read(visit, TEXT)
    (prediction,) = client.post("/predict", json={"sentences": [TEXT]}).json()["predictions"]
    assert part(visit, ".verdict").inner_text().split() == [
        prediction["label"],
        *whole(prediction["score"]).split(),
    ]
    shown = part(visit, "dl").evaluate(
        "list => [...list.querySelectorAll('dt')].map(term => "
        "[term.textContent, Number(term.nextElementSibling.nextElementSibling.title)])"
    )
    assert dict(shown) == prediction["probabilities"]
    expect(part(visit, ".verdict")).to_be_focused()
    status = visit.page.locator("#status")
    expect(status).to_have_text(f"{prediction['label']}, {whole(prediction['score'])}.")
    said = part(visit, ".reliable").inner_text()
    assert said.startswith("About ")
    expect(part(visit, ".warning")).to_be_hidden()
    expect(part(visit, ".extent")).to_be_hidden()


@pytest.mark.parametrize(
    ("score", "said"),
    [
        (0.4, ""),  # the record has nothing below its first threshold
        (0.55, "About 7 of 10 such verdicts are right on the texts it was tested with."),
        (0.62, "About 8 of 10 such verdicts are right on the texts it was tested with."),
        (0.995, "About 98 of 100 such verdicts are right on the texts it was tested with."),
    ],
)
def test_how_often_it_is_right_is_counted_in_the_models_record(
    shared: Visit, score: float, said: str
) -> None:
    record = [(0.5, 400, 0.85), (0.6, 300, 0.9), (0.9, 200, 0.95), (0.98, 100, 0.98), (0.99, 9, 1)]
    steps = [dict(zip(("threshold", "rows", "accuracy"), step, strict=True)) for step in record]
    found = shared.page.evaluate(
        """async ([steps, score]) => {
          const entry = document.querySelector('link[href$="/words.js"]').href;
          const { reliability } = await import(entry);
          return reliability({ by_threshold: steps }, score);
        }""",
        [steps, score],
    )
    assert found == said


def test_each_word_is_shaded_by_what_leaving_it_out_changes(
    visit: Visit, client: httpx.Client
) -> None:
    read(visit, TEXT)
    answer = reasons(client, TEXT, "word")
    units = answer["units"]
    assert part(visit, ".leave").text_content() == TEXT
    assert part(visit, ".leave button").all_inner_texts() == WORDS
    shown = part(visit, ".leave button").evaluate_all(
        "all => all.map(one => [one.title, getComputedStyle(one).backgroundColor])"
    )
    changes = [unit["probability_change"] for unit in units]
    largest = max(abs(change) for change in changes)
    assert largest > 0.5
    for unit, (title, colour) in zip(units, shown, strict=True):
        assert title == f"Without it: positive {percent(unit['probability'])}"
        blue = unit["probability_change"] >= 0
        alpha = 0.48 * (abs(unit["probability_change"]) / largest) ** 0.6
        channels = "29, 91, 184" if blue else "176, 74, 0"
        assert colour.startswith(f"rgba({channels}, ")
        assert float(colour.rpartition(", ")[2][:-1]) == pytest.approx(alpha, abs=0.006)
    most = units[7]
    before = most["probability"] + most["probability_change"]
    assert part(visit, ".because").inner_text() == (
        f"Without “superb.”, positive falls from {whole(before)} to {whole(most['probability'])}. "
        "It decided the verdict, which turns to negative without it."
    )
    assert part(visit, ".how").inner_text() == (
        "Marked in blue, a word speaks for positive: without it the probability falls. "
        "In orange, it speaks against it. Press one to leave it out, and again to bring it back."
    )


def test_a_text_that_says_it_twice_was_decided_by_no_single_word(visit: Visit) -> None:
    read(visit, TWICE)
    expect(part(visit, ".because")).to_have_text(
        "Leaving out any one word changes positive by less than 1 point. "
        "No single word decided it: without any one, the verdict stays."
    )


def test_sentences_come_first_where_the_text_is_long_and_words_can_be_chosen(
    visit: Visit, client: httpx.Client
) -> None:
    read(visit, LONG)
    units = reasons(client, LONG, "sentence")["units"]
    assert len(units) == 14
    assert part(visit, ".leave button").all_inner_texts() == [unit["text"] for unit in units]
    assert part(visit, ".leave").text_content() == LONG
    held: list[Route] = []
    visit.page.route("**/attributions", lambda route: held.append(route))
    part(visit, "input[name=unit][value=word]").check()
    visit.wait_until(lambda: bool(held))
    assert body_of(held[0])["level"] == "word"
    assert part(visit, ".leave button").count() == len(LONG.split())


def test_a_reason_that_fails_or_is_a_part_leaves_the_verdict_and_the_trials(visit: Visit) -> None:
    def cut(route: Route) -> None:
        route.fulfill(json=route.fetch().json() | {"partial": True})

    refuse(visit, 504, "timeout", path="attributions")
    read(visit, LONG)
    visit.complained("504")
    assert part(visit, ".label").is_visible()
    assert part(visit, ".how").inner_text() == "What leaving out changes is not computed: Details."
    expect(visit.page.locator("#problem")).to_have_count(0)
    part(visit, ".leave button").nth(0).click()
    expect(part(visit, ".outcome")).to_contain_text("Without “The”: ")

    visit.page.route("**/attributions", cut)
    visit.page.get_by_label("Text", exact=True).fill(TWICE)
    heard(visit, visit.page.get_by_role("button", name="Analyse").click, "attributions")
    expect(part(visit, ".how")).to_contain_text("Partial: there was no time for every word. ")
    # What is not computed may have decided it.
    assert "decided" not in part(visit, ".because").inner_text()


def test_a_word_is_left_out_and_replaced_with_the_new_verdict_beside(visit: Visit) -> None:
    read(visit, TEXT)
    words, now = part(visit, ".leave button"), part(visit, ".now")
    answer = heard(visit, lambda: words.nth(7).click())
    left = TEXT.replace("superb.", "")
    assert answer["asked"] == {"sentences": [left], "truncation": "window"}
    (after,) = answer["predictions"]
    expect(now).to_have_text(f"→ negative, {whole(after['score'])}")
    expect(part(visit, ".label")).to_have_text("positive")
    expect(part(visit, ".outcome")).to_contain_text("The verdict turns to negative, ")

    part(visit, ".which").select_option(label="drags,")
    part(visit, ".by").fill("shines,")
    answer = heard(visit, lambda: part(visit, ".by").press("Enter"))
    assert answer["asked"]["sentences"] == [left.replace("drags,", "shines,")]
    expect(words.nth(2)).to_have_text("drags, → shines,")
    heard(visit, lambda: part(visit, ".undo").click())
    expect(words.nth(2)).to_have_text("drags,")
    visit.page.evaluate("history.back()")
    expect(words.nth(2)).to_have_text("drags, → shines,")
    part(visit, ".reset").click()
    expect(now).to_have_text("")
    expect(part(visit, ".outcome")).to_have_text("")


def test_the_text_goes_along_from_tab_to_tab(visit: Visit) -> None:
    read(visit, "A dull film.")
    with visit.redrawn():
        visit.page.get_by_role("link", name="Heads", exact=True).click()
    assert visit.tokens()[1:4] == ["a", "dull", "film"]
    assert "#heads" in visit.page.url
    visit.ask("A superb film.")
    visit.page.get_by_role("link", name="A text", exact=True).click()
    expect(part(visit, ".label")).to_have_text("positive")
    assert visit.page.url.endswith("#text")
    visit.page.evaluate("history.back()")
    expect(visit.page.locator("#heads-tab")).to_be_visible()
    assert visit.tokens()[1:4] == ["a", "superb", "film"]
    visit.page.get_by_role("link", name="Many texts", exact=True).click()
    expect(visit.page.locator("#many-lines")).to_be_visible()
    expect(visit.page.get_by_role("button", name="Analyse")).to_be_hidden()


@pytest.mark.parametrize(
    ("path", "tab", "shown"),
    [("predict", "A text", "#answer .label"), ("attention", "Heads", ".panel .label")],
)
def test_an_answer_to_a_tab_that_was_left_is_there_on_return(
    visit: Visit, path: str, tab: str, shown: str
) -> None:
    held: list[Route] = []
    visit.page.route(f"**/{path}", lambda route: held.append(route))
    visit.page.get_by_role("link", name=tab, exact=True).click()
    visit.page.get_by_label("Text", exact=True).fill("A dull film.")
    visit.page.get_by_role("button", name="Analyse").click()
    visit.wait_until(lambda: "dull" in str([each.request.post_data for each in held[-1:]]))
    visit.page.get_by_role("link", name="Many texts", exact=True).click()
    held[-1].continue_()
    expect(visit.page.locator("#status")).to_contain_text("negative, ")
    visit.page.get_by_role("link", name=tab, exact=True).click()
    expect(visit.page.locator(shown)).to_have_text("negative")
    assert visit.page.locator("#problem").count() == 0


def test_each_tab_has_an_address(visit: Visit) -> None:
    for fragment, shown in (
        ("#heads", "#how"), ("#layer=2", "#how"), ("#many", "#many-lines"), ("#text", "#answer")
    ):  # fmt: skip
        visit.page.goto("about:blank")
        visit.open(fragment)
        expect(visit.page.locator(shown)).to_be_visible()
    explained(visit)


def test_what_is_tried_can_be_undone_and_tried_again(visit: Visit) -> None:
    read(visit, TEXT)
    words, pressed = part(visit, ".leave button"), part(visit, ".leave [aria-pressed=true]")
    undo, reset = part(visit, ".undo"), part(visit, ".reset")
    expect(undo).to_be_disabled()
    expect(reset).to_be_disabled()
    words.nth(0).focus()
    for key in ("End", "ArrowLeft", "ArrowRight"):
        visit.page.keyboard.press(key)
    first = heard(visit, lambda: visit.page.keyboard.press("Space"))
    expect(words.nth(7)).to_be_focused()
    heard(visit, words.nth(2).click)
    assert heard(visit, undo.click)["asked"] == first["asked"]
    expect(pressed).to_have_text(["superb."])
    part(visit, ".history summary").click()
    entries = part(visit, ".tried button")
    expect(entries).to_have_count(2)
    heard(visit, entries.nth(1).click)
    expect(pressed).to_have_text(["drags,", "superb."])

    outcome = part(visit, ".outcome").inner_text()
    visit.page.reload()
    explained(visit)
    expect(pressed).to_have_text(["drags,", "superb."])
    expect(part(visit, ".outcome")).to_have_text(outcome)
    assert visit.page.get_by_label("Text", exact=True).input_value() == TEXT
    assert "superb" not in visit.page.url

    read(visit, "superb film")
    expect(pressed).to_have_count(0)
    heard(visit, words.nth(0).click)
    # Without any word there is nothing to read.
    expect(words.nth(1)).to_be_disabled()
    expect(words.nth(0)).to_be_enabled()
