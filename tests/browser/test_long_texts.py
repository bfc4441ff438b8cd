"""Long texts come in parts, are put together right, and are drawn in time."""

from collections.abc import Callable
from urllib.parse import urlsplit

import httpx
from playwright.sync_api import Response, expect

from tests.browser.visits import Visit

WORDS = ("the", "plot", "is", "slow", "but", "the", "cast", "is", "superb", "and", "warm")


def text_of(tokens: int) -> str:
    """A text of so many tokens, two of them special: each word is one."""
    return " ".join(WORDS[at % len(WORDS)] for at in range(tokens - 2))


def test_two_hundred_tokens_of_all_heads(visit: Visit, client: httpx.Client) -> None:
    sentence = text_of(200)
    visit.ask(sentence)
    assert len(visit.tokens()) == 200
    assert visit.part(".overview-title").inner_text() == "72 heads"
    for layer, head in ((0, 0), (2, 11), (3, 0), (5, 11)):  # at the seams and the ends
        visit.choose(layer, head)
        visit.part(".of-query").select_option("57")
        body = {"sentence": sentence, "layer": [layer], "head": [head]}
        weights = client.post("/attention", json=body).json()["attention"][0][0]
        expect(visit.part(".readout")).to_contain_text(f" {max(weights[57]):.4f}, ")
        assert visit.part(".largest").get_attribute("title") == f"{max(map(max, weights)):.8f}"
        visit.part(".of-query").press("Escape")


def test_sixty_tokens_are_in_one_view(visit: Visit) -> None:
    visit.ask(text_of(60))
    assert len(visit.tokens()) == 60
    assert visit.page.evaluate("window.scrollY") == 0
    for part in (".grid", ".map"):
        box = visit.part(part).bounding_box()
        assert box is not None
        assert box["y"] + box["height"] <= 900


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
