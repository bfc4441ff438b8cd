"""Long texts come in parts, are put together right, and are drawn in time."""

import re
from collections.abc import Callable
from urllib.parse import urlsplit

import httpx
import pytest
from playwright.sync_api import Browser, Response

from tests.browser.visits import NARROW, WIDE, Visit, window
from tests.end_to_end.servers import RunningService

WORDS = ("the", "plot", "is", "slow", "but", "the", "cast", "is", "superb", "and", "warm")


def text_of(tokens: int) -> str:
    """A text of so many tokens, two of them special: each word is one."""
    return " ".join(WORDS[at % len(WORDS)] for at in range(tokens - 2))


def test_two_hundred_tokens_of_all_heads(visit: Visit, client: httpx.Client) -> None:
    sentence = text_of(200)
    visit.ask(sentence)

    assert visit.part(".strip button").count() == 200
    assert visit.part(".overview-title").inner_text() == "72 heads"
    text = visit.part(".lines-note").inner_text()
    assert re.fullmatch(r"The [\d,]+ strongest of 40,000 lines\.", text)
    for layer, head in ((0, 0), (2, 11), (3, 0), (5, 11)):  # at the seams and the ends
        visit.choose(layer, head)
        visit.part(".strip button").nth(57).click()
        body = {"sentence": sentence, "layer": [layer], "head": [head]}
        weights = client.post("/attention", json=body).json()["attention"][0][0]
        shown = visit.part(".lists .out .figure").first.get_attribute("title")
        assert shown == f"{max(weights[57]):.8f}"
        assert visit.part(".largest").get_attribute("title") == f"{max(map(max, weights)):.8f}"
        visit.part(".strip button").nth(57).press("Escape")


def bytes_of(visit: Visit, act: Callable[[], None]) -> int:
    """How many bytes the service answers to what an action asks, and none is refused."""
    sizes: list[int] = []

    def note(response: Response) -> None:
        if urlsplit(response.url).path in ("/attention", "/predict", "/model"):
            assert response.status == 200
            sizes.append(len(response.body()))

    visit.page.on("response", note)
    act()
    visit.page.remove_listener("response", note)
    return sum(sizes)


def test_five_hundred_tokens_take_a_few_megabytes(visit: Visit, client: httpx.Client) -> None:
    sentence = text_of(512)
    visit.open("#level=word&special=off")
    assert bytes_of(visit, lambda: visit.ask(sentence)) < 7_000_000
    assert visit.part(".grid button").count() == 72
    assert visit.part(".grid canvas").first.evaluate("canvas => canvas.width") == 48

    assert bytes_of(visit, lambda: visit.choose(2, 7)) < 4_000_000
    body = {"sentence": sentence, "layer": [2], "head": [7], "level": "word"}
    weights = client.post("/attention", json=body).json()["attention"][0][0]
    inner = [row[1:-1] for row in weights[1:-1]]
    assert visit.part(".largest").get_attribute("title") == f"{max(map(max, inner)):.8f}"


@pytest.mark.parametrize("width", [WIDE, NARROW])
def test_a_map_that_is_wider_than_its_frame_is_scrolled_there(
    browser: Browser, running: RunningService, width: int
) -> None:
    tokens = 300
    with window(browser, running.url, width=width) as visit:
        visit.open("#reduce=mean&view=map")
        visit.ask(text_of(tokens))
        frame, canvas = visit.part(".map"), visit.part(".map canvas")
        sizes = frame.evaluate("frame => [frame.clientWidth, frame.scrollWidth]")
        assert sizes[1] == canvas.evaluate("canvas => canvas.clientWidth") > 3 * tokens
        assert sizes[0] < sizes[1]
        assert frame.evaluate("frame => frame.clientHeight >= frame.firstChild.clientHeight")
        assert visit.overflow() == 0

        region = visit.page.get_by_role("region", name="Heat map")
        region.focus()
        visit.page.keyboard.press("ArrowRight")
        frame.evaluate(
            """async (frame) => {
              while (frame.scrollLeft === 0) await new Promise(requestAnimationFrame);
              frame.scrollLeft = frame.scrollWidth;
            }"""
        )
        texts = visit.part(".strip button").all_inner_texts()
        frame.hover(position={"x": sizes[0] - 2, "y": 2})
        text = visit.part(".readout").inner_text()
        assert text.startswith(f"“{texts[0]}” gives “{texts[-1]}” ")

        visit.ask("A superb film.")
        assert visit.page.get_by_role("region", name="Heat map").count() == 0
        assert frame.get_attribute("tabindex") is None
        assert visit.overflow() == 0
