"""What is in one view, and on which scale: heads that fit, look even where they are, and /docs."""

import httpx
import pytest
from playwright.sync_api import Browser, expect

from tests.browser.visits import Scheme, Visit, window

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
    assert visit.part(".strip button").count() >= 60
    for picture in ("lines", "map"):
        visit.page.locator(f"input[name=picture][value={picture}]").check()
        assert visit.page.evaluate("window.scrollY") == 0
        assert bottom(visit, ".grid") <= HEIGHT
        assert bottom(visit, f".{picture}") <= HEIGHT


def test_a_scale_has_six_even_shares_or_more(visit: Visit, client: httpx.Client) -> None:
    answer = client.get("/attention", params={"sentence": SIXTY}).json()
    size = len(answer["tokens"])
    largest = {
        (layer, head): max(map(max, rows))
        for layer, heads in enumerate(answer["attention"])
        for head, rows in enumerate(heads)
    }
    plain, strong = min(largest, key=largest.__getitem__), max(largest, key=largest.__getitem__)
    assert largest[plain] < 0.9 < largest[strong]
    visit.ask(SIXTY)
    for place in (plain, strong):
        visit.choose(*place)
        end = max(largest[place], 6 / size)
        assert visit.part(".pictures .largest").inner_text() == f"{end:.4f}"
        note = visit.part(".even-note").inner_text()
        assert note == f"Mark: an even share, {1 / size:.4f}."


@pytest.mark.parametrize(("size", "share"), [(4, 1 / 4), (12, 1 / 6), (60, 1 / 6)])
def test_an_even_head_looks_even_and_pale(shared: Visit, size: int, share: float) -> None:
    shades: list[int] = shared.page.evaluate(
        """async (size) => {
          const load = (name) => import(document.querySelector(`link[href$="/${name}"]`).href);
          const [{ drawSmall }, { readPalette }, { scaleEnd }] =
            await Promise.all(["drawing.js", "canvas.js", "weights.js"].map(load));
          const canvas = document.createElement("canvas");
          const cells = new Array(size ** 2).fill(1 / size);
          drawSmall(canvas, cells, scaleEnd(1 / size, size), readPalette());
          const { data } = canvas.getContext("2d").getImageData(0, 0, size, size);
          return [...data].filter((_, at) => at % 4 === 0);
        }""",
        size,
    )
    red = 255 - (255 - 195) * 3 * share  # the first third of the scale, from #ffffff to #c3d9f5
    assert shades == [pytest.approx(red, abs=1)] * size**2


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_the_interface_begins_with_its_operations(
    browser: Browser, shared: Visit, scheme: Scheme
) -> None:
    with window(browser, shared.url, scheme=scheme) as visit:
        visit.page.goto(f"{visit.url}/docs")
        first = visit.page.locator(".opblock").first
        expect(first).to_contain_text("/predict")
        place = first.bounding_box()
        assert place is not None
        assert place["y"] < HEIGHT / 2
        paper = visit.page.evaluate("getComputedStyle(document.documentElement).backgroundColor")
        assert paper == {"light": "rgba(0, 0, 0, 0)", "dark": "rgb(28, 32, 34)"}[scheme]
