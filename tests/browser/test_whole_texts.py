"""A text that is longer than the model reads: it is cut, and read whole if the user wants that."""

import json
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import expect

from tests.browser.routes import heard
from tests.browser.visits import Visit, percent
from tests.end_to_end.servers import RunningService

TEXT = "a very long film , not a bad cast " * 10  # 92 tokens: four windows
CUT = "The text is longer than the model reads: its end was cut off after 32 tokens."
READ = (
    "The whole text was read in 4 overlapping windows. "
    "The heads are those of one window, counted from 0."
)


@pytest.fixture
def cut(visit_tiny: Visit) -> Visit:
    """The page with an answer to the beginning of a text."""
    visit_tiny.ask(TEXT)
    return visit_tiny


def choose(visit: Visit, number: int) -> None:
    with visit.redrawn():
        visit.part(".windows select").select_option(str(number))


def test_a_text_that_is_cut_is_read_whole_in_windows(
    cut: Visit, tiny: RunningService, tmp_path: Path
) -> None:
    page, windows = cut.page, cut.part(".windows select")
    matter = cut.part(".find")
    assert cut.part(".cut").inner_text() == CUT
    assert cut.part(".windows").count() == 0
    page.get_by_role("button", name="Read it whole").focus()
    with cut.redrawn():
        answer = heard(cut, lambda: page.keyboard.press("Enter"))

    assert answer["asked"] == {"sentences": [TEXT], "truncation": "window"}
    (prediction,) = answer["predictions"]
    assert prediction["windows"] == 4
    assert cut.part(".label").inner_text() == prediction["label"]
    assert cut.part(".score").get_attribute("title") == json.dumps(prediction["score"])
    assert cut.part(".cut").count() == cut.part(".offer").count() == 0
    assert cut.part(".windows-note").inner_text() == READ
    assert windows.locator("option").all_inner_texts() == ["0", "1", "2", "3"]
    expect(windows).to_have_value("0")
    # It would be that of the beginning.
    assert matter.count() == cut.part(".switch").count() == 0

    expect(windows).to_be_focused()
    with cut.redrawn():
        page.keyboard.press("ArrowDown")
    expect(windows).to_have_value("1")
    body: dict[str, Any] = {"sentence": TEXT, "truncation": "window", "window": 1, "layer": [1]}
    with tiny.client() as client:
        asked = client.post("/attention", json=body | {"head": [0]}).json()
    assert cut.tokens() == [each["text"] for each in asked["tokens"]]
    assert cut.part(".score").inner_text() == percent(prediction["score"])
    said = f"{prediction['label']}, {percent(prediction['score'])}, 32 tokens, window 1 of 4. "
    assert page.get_by_role("status").inner_text() == f"{said}The heads are shown below."
    cut.choose(1, 0)
    largest = max(map(max, asked["attention"][0][0]))
    assert cut.part(".largest").get_attribute("title") == f"{largest:.8f}"
    with page.expect_download() as waiting:
        cut.menu("Save").get_by_role("button", name="JSON", exact=True).click()
    assert waiting.value.suggested_filename == "headlight-layer-1-head-0-window-1.json"
    waiting.value.save_as(tmp_path / "saved.json")
    assert json.loads((tmp_path / "saved.json").read_text(encoding="utf-8")) == asked

    choose(cut, 3)
    answer = heard(cut, lambda: cut.ask("a good film"), path="attention")
    assert answer["asked"] == {"sentence": "a good film", "thumbnail": 48}
    assert cut.part(".windows").count() == 0
    cut.ask(TEXT)
    expect(windows).to_have_value("0")


def test_more_windows_than_are_read_leave_the_answer(cut: Visit) -> None:
    cut.ask(TEXT * 3)
    cut.page.get_by_role("button", name="Read it whole").click()
    text = cut.problem()
    assert text.startswith("The text is too long.")
    assert "takes 12 windows of 32 tokens and may have at most 8" in text
    cut.complained("422")
    assert cut.page.get_by_role("button", name="Try again").count() == 0
    assert cut.part(".cut").inner_text() == CUT
    expect(cut.menu("View").get_by_label("Read long texts whole")).not_to_be_checked()
