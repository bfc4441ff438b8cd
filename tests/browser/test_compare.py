"""Two sentences beside each other: the same head, the same scale, the same token."""

import re

import httpx
import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from playwright.sync_api import expect

from tests.browser.visits import Visit

FIRST = "The staff was friendly and quick."
SECOND = "The staff was rude and quick."


@pytest.fixture(scope="module")
def compared(shared: Visit) -> Visit:
    """The page with two answers."""
    shared.ask(FIRST, SECOND)
    return shared


def test_both_predictions_are_there(compared: Visit, client: httpx.Client) -> None:
    answer = client.post("/predict", json={"sentences": [FIRST, SECOND]}).json()

    for panel, prediction in enumerate(answer["predictions"]):
        assert compared.part(".label", panel).inner_text() == prediction["label"]
        shown = float(compared.part(".score", panel).get_attribute("title") or "")
        assert shown == pytest.approx(prediction["score"], abs=1e-4)
    assert [compared.part("h2", panel).inner_text() for panel in (0, 1)] == [
        "First sentence",
        "Second sentence",
    ]


def test_a_head_is_chosen_for_both_on_one_scale(compared: Visit, client: httpx.Client) -> None:
    compared.head(5, 3, panel=1).click()

    largest = []
    for sentence in (FIRST, SECOND):
        body = {"sentence": sentence, "layer": [5], "head": [3]}
        largest.append(
            max(map(max, client.post("/attention", json=body).json()["attention"][0][0]))
        )
    for panel in (0, 1):
        assert compared.part(".place", panel).inner_text() == "Layer 5, head 3"
        shown = float(compared.part(".largest", panel).inner_text())
        assert shown == pytest.approx(max(largest), abs=1e-4)
        pressed = compared.part(".cell button[aria-pressed=true]", panel)
        assert (pressed.get_attribute("aria-label") or "").startswith("Layer 5, head 3.")


def test_what_was_put_in_belongs_to_nothing(visit: Visit) -> None:
    visit.ask("The food was good.", "The food was not good.")
    visit.part(".strip button", 1).nth(5).hover()
    assert visit.part(".lists .out h4", 0).inner_text() == "“good” looks most at"
    assert visit.part(".strip .changed", 1).all_inner_texts() == ["not"]

    visit.part(".strip button", 1).nth(4).hover()
    assert visit.part(".lists .out h4", 1).inner_text() == "“not” looks most at"
    assert visit.part(".lists h4", 0).first.inner_text() == "Largest weights"


words = st.lists(st.sampled_from("abcd"), max_size=8)


@settings(max_examples=150, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(words, words)
def test_the_alignment_keeps_the_order_and_as_many_as_can_be(
    visit: Visit, first: list[str], second: list[str]
) -> None:
    found: list[int | None] = visit.page.evaluate(
        """async ([first, second]) => {
          const entry = document.querySelector('link[href$="/difference.js"]').href;
          const { aligned } = await import(entry);
          return aligned(...[first, second].map((list) => list.map((text) => ({ text }))));
        }""",
        [first, second],
    )

    assert len(found) == len(first)
    there = [at for at in found if at is not None]
    assert there == sorted(set(there))
    assert all(0 <= at < len(second) for at in there)
    same = sum(at is not None and first[place] == second[at] for place, at in enumerate(found))
    assert same >= longest_common(first, second)


def longest_common(first: list[str], second: list[str]) -> int:
    """The length of a longest common subsequence."""
    lengths = [[0] * (len(second) + 1) for _ in range(len(first) + 1)]
    for one, word in enumerate(first):
        for other, its in enumerate(second):
            lengths[one + 1][other + 1] = (
                lengths[one][other] + 1
                if word == its
                else max(lengths[one][other + 1], lengths[one + 1][other])
            )
    return lengths[-1][-1]


def maps_of(client: httpx.Client, *bodies: dict[str, object]) -> list[NDArray[np.float64]]:
    """The map of layer 5, head 3, of each question."""
    chosen = {"layer": [5], "head": [3]}
    answers = [client.post("/attention", json=body | chosen).json() for body in bodies]
    return [np.array(answer["attention"][0][0]) for answer in answers]


def test_the_difference_of_a_head_is_that_of_the_tokens_that_belong_together(
    visit: Visit, client: httpx.Client
) -> None:
    visit.ask("The food was good.", "The food was not good.")
    visit.choose(5, 3)
    part = visit.page.locator("#difference")
    part.locator("summary").click()

    first, second = maps_of(
        client, {"sentence": "The food was good."}, {"sentence": "The food was not good."}
    )
    kept = [0, 1, 2, 3, 5, 6, 7]  # without "not"
    expected = second[np.ix_(kept, kept)] - first
    shown = part.locator("td [title]").evaluate_all("all => all.map(cell => Number(cell.title))")
    assert np.array(shown).reshape(7, 7) == pytest.approx(expected, abs=2e-8)
    assert float(part.locator(".largest").get_attribute("title") or "nan") == pytest.approx(
        np.abs(expected).max(), abs=2e-8
    )
    most = part.locator(".more .figure").first.get_attribute("title") or ""
    assert float(most) == pytest.approx(expected.max(), abs=2e-8)
    least = part.locator(".less .figure").first.get_attribute("title") or ""
    assert float(least.replace("\N{MINUS SIGN}", "-")) == pytest.approx(expected.min(), abs=2e-8)
    visit.ask("The food was good.")
    expect(part).to_be_hidden()


def test_the_difference_is_read_with_the_pointer(compared: Visit) -> None:
    compared.choose(5, 3)
    part = compared.page.locator("#difference")
    box = part.locator("canvas").bounding_box()
    assert box is not None
    part.locator("canvas").hover(position={"x": box["width"] - 8, "y": box["height"] - 8})

    text = part.locator(".readout").inner_text()
    assert re.fullmatch(
        r"“\[SEP\]” gives “\[SEP\]” 0\.\d{4} in the first, 0\.\d{4} in the second: "
        r"[+\u2212]0\.\d{4}\.",
        text,
    )


def test_a_place_of_the_grid_has_one_scale_in_both(compared: Visit, client: httpx.Client) -> None:
    # A square whose text has the lesser weights has no darkest pixel.
    answers = [
        np.array(client.post("/attention", json={"sentence": text}).json()["attention"])
        for text in (FIRST, SECOND)
    ]
    darkest = [
        compared.part(".grid canvas", panel).evaluate_all(
            """all => all.map((canvas) => {
              const side = canvas.width;
              const pixels = canvas.getContext('2d').getImageData(0, 0, side, side).data;
              let least = 765;
              for (let at = 0; at < pixels.length; at += 4) {
                least = Math.min(least, pixels[at] + pixels[at + 1] + pixels[at + 2]);
              }
              return least;
            })"""
        )
        for panel in (0, 1)
    ]
    tops = [answer.max(axis=(-2, -1)).ravel() for answer in answers]
    for at in range(72):
        if tops[0][at] > 1.2 * tops[1][at]:
            assert darkest[0][at] < darkest[1][at]
        if tops[1][at] > 1.2 * tops[0][at]:
            assert darkest[1][at] < darkest[0][at]
    assert min(darkest[0]) == min(darkest[1])


def test_importance_has_one_scale_in_both(compared: Visit, client: httpx.Client) -> None:
    compared.page.get_by_label("Mark importance").check()
    compared.part(".grid.marked", 1).wait_for()

    importance = [
        np.array(client.post("/importance", json={"sentence": text}).json()["importance"]).ravel()
        for text in (FIRST, SECOND)
    ]
    largest = max(each.max() for each in importance)
    for panel, values in enumerate(importance):
        shown = compared.part(".grid .mark", panel).evaluate_all(
            "all => all.map((mark) => parseFloat(mark.style.width))"
        )
        assert shown == pytest.approx(100 * values / largest, abs=0.06)


def test_a_sentence_is_compared_with_itself_without_a_head_and_a_word(
    visit: Visit, client: httpx.Client
) -> None:
    visit.ask(FIRST)
    visit.choose(5, 3)
    beside = visit.page.get_by_role("button", name="Heads beside each other")
    expect(beside).to_be_disabled()
    visit.page.get_by_role("button", name="Switch off layer 5, head 3").click()
    visit.part(".leave button").filter(has_text="friendly").click()
    visit.part(".outcome").filter(has_text="without").wait_for()
    with visit.redrawn():
        beside.click()

    titles = [visit.part("h2", panel).inner_text() for panel in (0, 1)]
    assert titles == ["As it is", "Without “friendly”; off: layer 5, head 3"]
    changes = {"omit": [4], "head_mask": [{"layer": 5, "head": 3}]}
    answer = client.post("/predict", json={"sentences": [FIRST], **changes}).json()
    shown = float(visit.part(".score", 1).get_attribute("title") or "")
    assert shown == pytest.approx(answer["predictions"][0]["score"], abs=1e-4)
    first, second = maps_of(client, {"sentence": FIRST}, {"sentence": FIRST, **changes})
    part = visit.page.locator("#difference")
    part.locator("summary").click()
    kept = [0, 1, 2, 3, 5, 6, 7, 8]
    cells = part.locator("td [title]").evaluate_all("all => all.map(cell => Number(cell.title))")
    expected = second - first[np.ix_(kept, kept)]
    assert np.array(cells).reshape(8, 8) == pytest.approx(expected, abs=2e-8)
    assert visit.part(".trials", 1).is_hidden()
    assert visit.page.locator("#old").inner_text() == ""

    with visit.redrawn():
        visit.part(".close", 1).click()
    assert visit.page.locator(".panel").count() == 1
    assert visit.part("h2").inner_text() == "Prediction"
    expect(visit.part(".leave button[aria-pressed=true]")).to_have_text("friendly")
