"""Several heads of a layer over each other, each in a colour of its own."""

import re

import pytest
from playwright.sync_api import expect

from tests.browser.visits import Visit

TEXT = "The plot drags, but the cast is superb."
LONG = "The plot drags in places, but the cast is superb. " * 12


@pytest.fixture
def several(visit: Visit) -> Visit:
    """The page with all heads of layer 2."""
    visit.ask(TEXT)
    visit.choose(2, 5)
    visit.set("picture", "several")
    return visit


def drawn(visit: Visit) -> list[int]:
    """The heads whose button is pressed."""
    pressed: list[str] = visit.part(".overlay .heads [aria-pressed=true]").all_inner_texts()
    return [int(head) for head in pressed]


def look(visit: Visit) -> str:
    """What the canvas shows."""
    found: str = visit.part(".several canvas").evaluate("(canvas) => canvas.toDataURL()")
    return found


def test_all_heads_of_the_layer_are_drawn(several: Visit) -> None:
    assert drawn(several) == list(range(12))
    assert several.part(".lines").is_hidden()
    assert several.part(".map").is_hidden()
    assert several.part(".overlay select").input_value() == "2"
    name = several.part(".several canvas").get_attribute("aria-label")
    assert several.part(".lists h4").first.inner_text() == "Largest weights of layer 2, head 5"
    heads = ", ".join(map(str, range(12)))
    assert name == f"Layer 2, heads {heads}, as lines in several colours."
    borders = several.part(".overlay .heads button").evaluate_all(
        "buttons => buttons.map((button) => getComputedStyle(button).borderTopColor)"
    )
    assert len(set(borders)) == 12


def test_heads_are_left_out_and_come_back(several: Visit) -> None:
    button = several.part(".overlay .heads button")
    button.nth(3).click()
    assert drawn(several) == [0, 1, 2, 4, 5, 6, 7, 8, 9, 10, 11]
    several.part(".overlay .only").click()
    assert drawn(several) == [5]
    button.nth(5).click()
    assert drawn(several) == [5]  # one stays: nothing would be drawn
    one = look(several)
    button.nth(0).click()
    assert drawn(several) == [0, 5]
    assert look(several) != one
    several.part(".overlay .every").click()
    assert drawn(several) == list(range(12))


def test_another_layer_is_chosen_in_the_list(several: Visit) -> None:
    several.part(".overlay .heads button").nth(3).click()
    several.part(".overlay select").select_option("4")

    expect(several.part(".place")).to_have_text("Layer 4, head 5")
    assert 3 not in drawn(several)
    expect(several.head(4, 5)).to_have_attribute("aria-pressed", "true")


def stripes(visit: Visit) -> int:
    """The different colours behind the first token that is looked at, above its letters."""
    found: int = visit.part(".several canvas").evaluate(
        """(canvas) => {
          const copy = document.createElement('canvas');
          Object.assign(copy, { width: canvas.width, height: canvas.height });
          const context = copy.getContext('2d', { willReadFrequently: true });
          context.drawImage(canvas, 0, 0);
          const { data } = context.getImageData(canvas.width - 48, 2, 48, 1);
          const pixels = Array.from({ length: 48 }, (_, at) => data.slice(4 * at, 4 * at + 4));
          return new Set(pixels.map(String)).size;
        }"""
    )
    return found


def test_a_token_that_is_pointed_at_has_a_stripe_for_each_head(several: Visit) -> None:
    assert stripes(several) == 1
    several.part(".strip button").nth(8).click()
    several.page.mouse.move(1, 1)
    several.page.evaluate("new Promise(requestAnimationFrame)")
    assert stripes(several) > 4
    several.part(".overlay .only").click()
    several.wait_until(lambda: stripes(several) == 1)
    assert stripes(several) == 1


def test_a_view_of_joined_heads_has_lines(several: Visit) -> None:
    several.set("reduce", "mean")
    assert several.part(".overlay").is_hidden()
    assert several.part(".lines").is_visible()
    several.set("reduce", "none")
    assert several.part(".overlay").is_visible()


def test_a_long_text_begins_with_the_chosen_head(visit: Visit) -> None:
    visit.ask(LONG)
    visit.choose(1, 4)
    visit.set("picture", "several")
    assert drawn(visit) == [4]
    with visit.page.expect_response(re.compile("/attention$")) as waiting:
        visit.part(".overlay .heads button").nth(2).click()
    asked = waiting.value.request.post_data_json or {}
    assert (asked["layer"], asked["head"], asked["format"]) == ([1], [2], "npz")
    expect(visit.part(".overlay .heads button").nth(2)).to_have_attribute("aria-pressed", "true")
    assert drawn(visit) == [2, 4]
