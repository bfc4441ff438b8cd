"""Keys and typing: everything can be done with the keys, and the focus is always visible."""

from playwright.sync_api import expect

from tests.browser.visits import Visit

OLD = "This is the answer to the text before your change."


def test_a_sentence_is_asked_and_its_heads_are_walked_through(visit: Visit) -> None:
    page = visit.page
    page.get_by_label("Text", exact=True).focus()
    page.keyboard.press("Tab")
    expect(page.get_by_role("button", name="Read it", exact=True)).to_be_focused()
    with visit.redrawn():
        page.keyboard.press("Enter")
    visit.head(0, 0).focus()
    for keys, place in (
        (["ArrowRight", "ArrowDown", "ArrowDown"], "Layer 2, head 1"),
        (["End"], "Layer 2, head 11"),
        (["ArrowRight"], "Layer 2, head 11"),
        (["ArrowUp", "Home"], "Layer 1, head 0"),
        (["Control+End"], "Layer 5, head 11"),
        (["Control+Home"], "Layer 0, head 0"),
    ):
        for key in keys:
            page.keyboard.press(key)
        assert visit.part(".place").inner_text() == place
    pressed = visit.part(".cell button[aria-pressed=true]")
    expect(pressed).to_have_count(1)
    expect(pressed).to_be_focused()


def test_tokens_are_walked_through_and_heard(visit: Visit) -> None:
    visit.ask("The plot drags.")
    page = visit.page
    visit.choose(3, 8)
    visit.part(".menu summary").last.focus()
    page.keyboard.press("Tab")
    expect(visit.part(".of-query")).to_be_focused()
    for _ in range(3):
        page.keyboard.press("ArrowDown")
    said = visit.part(".readout").inner_text()
    assert said.startswith("“plot” looks most at “")
    expect(page.get_by_role("status")).to_have_text(said)
    page.keyboard.press("Tab")
    page.keyboard.press("ArrowDown")
    expect(page.get_by_role("status")).to_contain_text("“plot” gives “[CLS]” 0.")
    page.keyboard.press("Escape")
    expect(visit.part(".of-query")).to_have_value("")
    expect(visit.part(".readout")).to_contain_text("Each row is a token that looks")


def test_a_menu_is_opened_and_closed_and_changes_the_view(visit: Visit) -> None:
    visit.ask("The plot drags.")
    page, menu = visit.page, visit.part(".menu").first
    controls = page.locator("#controls")
    menu.locator("summary").focus()
    page.keyboard.press("Enter")
    expect(controls).to_be_visible()
    page.keyboard.press("Tab")
    expect(controls.locator("[name=level]")).to_be_focused()
    with visit.redrawn():
        page.keyboard.press("ArrowDown")
    assert visit.tokens()[-2] == "drags."
    page.keyboard.press("Escape")
    expect(controls).to_have_count(0)
    expect(menu.locator("summary")).to_be_focused()
    for leave in (visit.part(".place").click, visit.part(".of-key").focus):
        visit.menu("View")
        expect(controls).to_be_visible()
        leave()
        expect(controls).to_have_count(0)
    # On a phone it stays in the window.
    page.set_viewport_size({"width": 320, "height": 700})
    box = visit.menu("View").locator(".sheet").bounding_box()
    assert box is not None
    assert 0 <= box["x"] <= 320 - box["width"]


def test_the_focus_is_seen_wherever_it_goes(visit: Visit) -> None:
    visit.ask("The plot drags.")
    page = visit.page
    page.get_by_label("Text", exact=True).focus()
    seen = set()
    for _ in range(40):
        page.keyboard.press("Tab")
        outline = page.evaluate(
            """() => {
              const focused = document.activeElement;
              const drawn = focused.matches('input[type=radio]')
                ? focused.nextElementSibling : focused;
              return [focused === document.body ? 'body' : focused.outerHTML.slice(0, 80),
                getComputedStyle(drawn).outlineStyle];
            }"""
        )
        if outline[0] == "body":
            break
        seen.add(outline[0])
        assert outline[1] == "solid", outline
    assert len(seen) > 15


def test_keys_in_the_field_send_and_an_edit_marks_the_answer_as_old(visit: Visit) -> None:
    field, old = visit.page.get_by_label("Text", exact=True), visit.page.locator("#old")
    field.fill("A dull film.")
    field.press("Enter")
    assert field.input_value() == "A dull film.\n"
    assert visit.page.locator("#results").count() == 0
    for keys, text, label in (
        ("Control+Enter", "A dull film.", "negative"),
        ("Meta+Enter", "A superb film.", "positive"),
    ):
        field.fill(text)
        with visit.redrawn():
            field.press(keys)
        expect(visit.part(".label")).to_have_text(label)
        assert field.input_value() == text
        expect(old).to_be_hidden()
    field.press("End")
    field.press_sequentially("!")
    expect(old).to_have_text(OLD)
    field.press("Backspace")
    expect(old).to_be_hidden()
