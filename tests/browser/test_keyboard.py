"""Keys and typing: everything can be done with the keys, and the focus is always visible."""

import httpx
from playwright.sync_api import expect

from tests.browser.visits import Visit

TEXT = "The plot drags, but the cast is superb."
OLD = "This is the answer to the text before your change."


def test_a_sentence_is_asked_and_its_heads_are_walked_through(visit: Visit) -> None:
    page = visit.page
    page.get_by_label("Text", exact=True).focus()
    page.keyboard.press("Tab")
    expect(page.get_by_role("button", name="Analyse")).to_be_focused()
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
    visit.head(3, 8).click()
    page.keyboard.press("Tab")
    page.keyboard.press("ArrowRight")
    page.keyboard.press("ArrowRight")

    expect(visit.part(".strip button").nth(2)).to_be_focused()
    assert visit.part(".lists .out h4").inner_text() == "“plot” looks most at"
    figure = visit.part(".lists .out .figure").first.inner_text()
    said = page.get_by_role("status").inner_text()
    assert said.startswith("“plot” looks most at “")
    assert figure in said
    assert "it is looked at most by" in said

    page.keyboard.press("End")
    expect(visit.part(".strip button").last).to_be_focused()
    page.keyboard.press("Escape")
    assert visit.part(".lists h4").first.inner_text() == "Largest weights"


def test_what_stands_under_the_pointer_gives_way_to_what_was_chosen(visit: Visit) -> None:
    visit.ask("The plot drags.")
    visit.part(".strip button").nth(1).click()
    visit.part(".strip button").nth(2).hover()
    assert visit.part(".lists h4").first.inner_text() == "“plot” looks most at"
    visit.page.mouse.move(1, 1)
    assert visit.part(".lists h4").first.inner_text() == "“the” looks most at"

    # With one map a layer, both pairs of arrows go along the line.
    visit.set("reduce", "mean")
    assert visit.part(".overview-title").inner_text() == "6 maps"
    visit.part(".cell button").first.focus()
    for layer, key in ((1, "ArrowRight"), (2, "ArrowDown")):
        visit.page.keyboard.press(key)
        assert visit.part(".place").inner_text() == f"Layer {layer}, mean of heads 0 to 11"


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
    assert len(seen) > 20


def test_canvases_have_words_in_their_stead(visit: Visit, client: httpx.Client) -> None:
    sentence = "The plot drags, but the cast is superb."
    body = {"sentence": sentence, "layer": [0], "head": [2]}
    weights = client.post("/attention", json=body).json()["attention"][0][0]
    before = [row.index(max(row)) == query - 1 > 0 for query, row in enumerate(weights)]
    assert sum(before) > len(weights) / 2, "another model: choose a head of it that looks back"
    visit.ask(sentence)
    visit.choose(0, 2)

    said = f"{sum(before)} of {len(weights)} tokens look most at the token before them."
    assert visit.part(".pattern").inner_text() == said
    for picture, how in (("lines", "lines"), ("map", "a heat map")):
        visit.page.locator(f"input[name=picture][value={picture}]").check()
        label = visit.part(f".{picture} canvas").get_attribute("aria-label")
        assert label == f"Layer 0, head 2 as {how}. {said}"
    assert visit.head(0, 2).get_attribute("aria-label") == f"Layer 0, head 2. {said}"


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
        expect(old).to_have_text("")
    field.press("End")
    field.press_sequentially("!")
    expect(old).to_have_text(OLD)
    expect(old).to_be_visible()
    field.press("Backspace")
    expect(old).to_have_text("")
    expect(old).to_be_hidden()
