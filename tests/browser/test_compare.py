"""Two sentences beside each other: the same head, the same scale, the same token."""

import httpx
import pytest

from tests.browser.visits import Visit

FIRST = "The staff was friendly and quick."
SECOND = "The staff was rude and quick."


@pytest.fixture
def compared(visit: Visit) -> Visit:
    """The page with two answers."""
    visit.ask(FIRST, SECOND)
    return visit


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


def test_the_same_token_is_pointed_at_in_both(compared: Visit) -> None:
    compared.part(".strip button", 0).nth(4).hover()

    titles = [compared.part(".lists .out h4", panel).inner_text() for panel in (0, 1)]
    assert titles == ["“friendly” looks most at", "“rude” looks most at"]


def test_what_differs_is_marked(compared: Visit) -> None:
    marked = [compared.part(".strip .changed", panel).all_inner_texts() for panel in (0, 1)]

    assert marked == [["friendly"], ["rude"]]


def test_texts_of_different_lengths_are_aligned_from_both_ends(visit: Visit) -> None:
    visit.ask("The food was good.", "The food was not good.")
    visit.part(".strip button", 1).nth(5).hover()
    assert visit.part(".lists .out h4", 0).inner_text() == "“good” looks most at"
    assert visit.part(".strip .changed", 1).all_inner_texts() == ["not"]

    visit.part(".strip button", 1).nth(4).hover()
    assert visit.part(".lists .out h4", 1).inner_text() == "“not” looks most at"
    assert visit.part(".lists h4", 0).first.inner_text() == "Largest weights"


def test_one_sentence_is_left_when_the_comparison_ends(compared: Visit) -> None:
    with compared.redrawn():
        compared.page.get_by_label("Compare with a second sentence").uncheck()

    assert compared.page.locator(".panel").count() == 1
    assert compared.page.get_by_label("Second sentence", exact=True).is_hidden()
