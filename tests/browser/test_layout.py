"""What is in one view, and on which scale: heads that fit, look even where they are, and /docs."""

import pytest

from tests.browser.visits import Visit

SIXTY = (
    "The hotel was in a lovely part of the town and the staff at the desk were kind, but our room "
    "smelled of smoke, the shower was cold each morning, nobody came when we called, and the bill "
    "had two nights too many on it, so we will not go back there again."
)
HEIGHT = 900  # of the window that all visits have


def bottom(visit: Visit, selector: str) -> float:
    found: float = visit.part(selector).evaluate("part => part.getBoundingClientRect().bottom")
    return found


def test_grid_and_head_are_in_one_view(visit: Visit) -> None:
    visit.ask(SIXTY)
    assert len(visit.tokens()) >= 60
    assert visit.page.evaluate("window.scrollY") == 0
    assert bottom(visit, ".grid") <= HEIGHT
    assert bottom(visit, ".map") <= HEIGHT


@pytest.mark.parametrize(("size", "share"), [(4, 1 / 4), (12, 1 / 6), (60, 1 / 6)])
def test_an_even_head_looks_even_and_pale(shared: Visit, size: int, share: float) -> None:
    shades: list[int] = shared.page.evaluate(
        """async (size) => {
          const { src } = document.querySelector("script[type=module]");
          const load = (name) => import(src.replace("page.js", name));
          const [{ drawSmall }, { scaleEnd }] =
            await Promise.all(["drawing.js", "weights.js"].map(load));
          const canvas = document.createElement("canvas");
          const cells = new Array(size ** 2).fill(1 / size);
          drawSmall(canvas, cells, scaleEnd(1 / size, size));
          const { data } = canvas.getContext("2d").getImageData(0, 0, size, size);
          return [...data].filter((_, at) => at % 4 === 0);
        }""",
        size,
    )
    red = 255 - (255 - 11) * share  # from #ffffff to #0b5cad
    assert shades == [pytest.approx(red, abs=1)] * size**2
