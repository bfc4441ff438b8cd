"""A text that is longer than the model reads: it is cut, and read whole if the user wants that."""

import json
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Locator, expect

from tests.browser.routes import heard
from tests.browser.visits import Visit, percent
from tests.end_to_end.servers import RunningService

TEXT = "a very long film , not a bad cast " * 10  # 92 tokens: four windows
MORE = TEXT * 2  # 182: eight
CUT = "The text is longer than the model reads: its end was cut off after 32 tokens."
READ = (
    "The whole text was read in {} overlapping windows. "
    "The heads are those of one window, counted from 0."
)


@pytest.fixture
def cut(visit_tiny: Visit) -> Visit:
    """The page with an answer to the beginning of a text."""
    visit_tiny.ask(TEXT)
    return visit_tiny


def read_whole(visit: Visit) -> dict[str, Any]:
    """Takes the offer; what the service says of the whole text."""

    def take() -> None:
        with visit.redrawn():
            visit.page.get_by_role("button", name="Read it whole").click()

    return heard(visit, take)


def chooser(visit: Visit, panel: int = 0) -> Locator:
    """Where a window is chosen."""
    return visit.part(".windows select", panel)


def choose(visit: Visit, number: int) -> None:
    """Shows a window."""
    with visit.redrawn():
        chooser(visit).select_option(str(number))


def tokens_of(running: RunningService, number: int, text: str = TEXT) -> list[str]:
    """The tokens of a window, by the service."""
    body = {"sentence": text, "truncation": "window", "window": number, "reduce": "rollout"}
    with running.client() as client:
        tokens: list[dict[str, Any]] = client.post("/attention", json=body).json()["tokens"]
    return [token["text"] for token in tokens]


def test_a_text_that_is_cut_is_offered_to_be_read_whole(cut: Visit, tiny: RunningService) -> None:
    assert cut.part(".cut").inner_text() == CUT
    assert cut.part(".windows").is_hidden()

    answer = read_whole(cut)

    assert answer["asked"] == {"sentences": [TEXT], "on_error": "item", "truncation": "window"}
    (prediction,) = answer["predictions"]
    assert prediction["windows"] == 4
    assert cut.part(".label").inner_text() == prediction["label"]
    assert cut.part(".score").get_attribute("title") == json.dumps(prediction["score"])
    assert cut.part(".cut").is_hidden()
    assert cut.part(".offer").is_hidden()
    assert cut.part(".windows-note").inner_text() == READ.format(4)
    assert chooser(cut).locator("option").all_inner_texts() == ["0", "1", "2", "3"]
    expect(chooser(cut)).to_have_value("0")
    expect(cut.page.get_by_label("Read long texts whole")).to_be_checked()
    assert cut.part(".strip button").all_inner_texts() == tokens_of(tiny, 0)


def test_another_window_is_chosen(cut: Visit, tiny: RunningService) -> None:
    (prediction,) = read_whole(cut)["predictions"]
    choose(cut, 2)

    assert cut.part(".strip button").all_inner_texts() == tokens_of(tiny, 2)
    assert cut.part(".score").inner_text() == percent(prediction["score"])
    body = {"sentence": TEXT, "truncation": "window", "window": 2, "layer": [1], "head": [0]}
    with tiny.client() as client:
        weights = client.post("/attention", json=body).json()["attention"][0][0]
    cut.head(1, 0).click()
    assert cut.part(".largest").get_attribute("title") == f"{max(map(max, weights)):.8f}"
    said = cut.page.get_by_role("status").inner_text()
    assert said == (
        f"{prediction['label']}, {percent(prediction['score'])}, 32 tokens, window 2 of 4. "
        "The heads are shown below."
    )


def test_what_explains_the_beginning_is_not_shown_for_another_window(cut: Visit) -> None:
    read_whole(cut)
    importance = cut.page.get_by_label("Mark importance")
    choose(cut, 1)
    expect(importance).to_be_disabled()

    choose(cut, 0)
    expect(importance).to_be_enabled()


def test_a_text_that_fits_is_asked_as_ever(cut: Visit) -> None:
    read_whole(cut)
    choose(cut, 3)
    answer = heard(cut, lambda: cut.ask("a good film"), path="attention")

    assert answer["asked"] == {"sentence": "a good film", "thumbnail": 48}
    assert cut.part(".windows").is_hidden()
    cut.ask(TEXT)
    expect(chooser(cut)).to_have_value("0")


def test_the_keys_are_enough(cut: Visit, tiny: RunningService) -> None:
    page = cut.page
    page.get_by_role("button", name="Read it whole").focus()
    with cut.redrawn():
        page.keyboard.press("Enter")
    expect(chooser(cut)).to_be_focused()
    with cut.redrawn():
        page.keyboard.press("ArrowDown")
    expect(chooser(cut)).to_be_focused()
    expect(chooser(cut)).to_have_value("1")
    assert cut.part(".strip button").all_inner_texts() == tokens_of(tiny, 1)


def test_more_windows_than_are_read_leave_the_answer(cut: Visit) -> None:
    text = MORE + TEXT
    cut.ask(text)
    cut.page.get_by_role("button", name="Read it whole").click()

    text = cut.problem()
    assert text.startswith("The text is too long for the model.")
    assert "takes 12 windows of 32 tokens and may have at most 8" in text
    assert cut.page.get_by_role("button", name="Try again").is_hidden()
    assert cut.part(".cut").inner_text() == CUT
    expect(cut.page.get_by_label("Read long texts whole")).not_to_be_checked()


def test_of_two_texts_each_shows_a_window_that_it_has(cut: Visit, tiny: RunningService) -> None:
    cut.ask(MORE, TEXT)
    with cut.redrawn():
        cut.page.get_by_label("Read long texts whole").check()
    notes = [cut.part(".windows-note", panel).inner_text() for panel in (0, 1)]
    assert notes == [READ.format(8), READ.format(4)]
    choose(cut, 5)

    expect(chooser(cut, 1)).to_have_value("3")
    for panel, (number, text) in enumerate(((5, MORE), (3, TEXT))):
        shown = cut.part(".strip button", panel).all_inner_texts()
        assert shown == tokens_of(tiny, number, text)


def test_what_is_saved_is_of_the_window(cut: Visit, tiny: RunningService, tmp_path: Path) -> None:
    read_whole(cut)
    choose(cut, 1)
    cut.head(1, 1).click()
    with cut.page.expect_download() as waiting:
        cut.part(".save").get_by_role("button", name="JSON", exact=True).click()
    assert waiting.value.suggested_filename == "headlight-layer-1-head-1-window-1.json"
    waiting.value.save_as(tmp_path / "saved.json")
    saved = json.loads((tmp_path / "saved.json").read_text(encoding="utf-8"))
    assert (saved["window"], saved["windows"]) == (1, 4)
    assert [token["text"] for token in saved["tokens"]] == tokens_of(tiny, 1)
