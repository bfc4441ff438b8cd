"""Typing: the keys that send, and what is said of an answer to another text."""

import pytest
from playwright.sync_api import expect

from tests.browser.visits import Visit

TEXT = "The plot drags, but the cast is superb."
OLD = "This is the answer to the text before your change."


@pytest.mark.parametrize("keys", ["Control+Enter", "Meta+Enter"])
def test_keys_in_the_field_send(visit: Visit, keys: str) -> None:
    field = visit.page.get_by_label("Sentence", exact=True)
    field.fill("A dull film.")
    with visit.redrawn():
        field.press(keys)
    expect(visit.part(".label")).to_have_text("negative")
    assert field.input_value() == "A dull film."


def test_enter_alone_begins_a_line(visit: Visit) -> None:
    field = visit.page.get_by_label("Sentence", exact=True)
    field.fill("A dull film.")
    field.press("Enter")
    assert field.input_value() == "A dull film.\n"
    expect(visit.page.locator("#results")).to_be_hidden()


def test_an_edited_text_marks_the_answer_as_old_until_it_is_asked_or_back(visit: Visit) -> None:
    visit.ask(TEXT)
    field, old = visit.page.get_by_label("Sentence", exact=True), visit.page.locator("#old")
    expect(old).to_have_text("")
    field.press("End")
    field.press_sequentially("!")
    expect(old).to_have_text(OLD)
    expect(old).to_be_visible()
    field.press("Backspace")
    expect(old).to_have_text("")
    expect(old).to_be_hidden()
    field.fill("A dull film.")
    expect(old).to_have_text(OLD)
    with visit.redrawn():
        field.press("Control+Enter")
    expect(old).to_have_text("")


def test_the_second_text_counts_only_while_two_are_compared(visit: Visit) -> None:
    visit.ask(TEXT, "A dull film.")
    visit.page.get_by_label("Second sentence", exact=True).fill("A good film.")
    expect(visit.page.locator("#old")).to_have_text(OLD)
