"""What stands beside attention: attributions of tokens, and the importance of heads."""

from typing import Any

import httpx
import pytest
from playwright.sync_api import Route, expect

from tests.browser.answers import signed
from tests.browser.routes import questions
from tests.browser.visits import Visit

SENTENCE = "The plot drags, but the cast is superb."


@pytest.fixture
def asked(visit: Visit) -> Visit:
    """The page with an answer."""
    visit.ask(SENTENCE)
    return visit


def attributions(client: httpx.Client, **fields: str) -> dict[str, Any]:
    """What the service says."""
    response = client.post("/attributions", json={"sentence": SENTENCE, **fields})
    assert response.status_code == 200
    found: dict[str, Any] = response.json()
    return found


@pytest.mark.parametrize("level", ["token", "word"])
def test_attributions_are_the_services(asked: Visit, client: httpx.Client, level: str) -> None:
    if level == "word":
        asked.set("level", "word")
    part = asked.part(".attributions")
    part.locator("summary").click()
    part.locator("li").first.wait_for()
    expect(asked.page.locator("#status")).to_have_text("What each token adds is shown.")

    answer = attributions(client, level=level)
    shown = part.locator("li").evaluate_all(
        "items => items.map(item => [item.querySelector('.name').textContent, "
        "item.querySelector('.figure').textContent, item.title])"
    )
    assert shown == [
        [token["text"], signed(value, 2), signed(value, 6)]
        for token, value in zip(answer["tokens"], answer["attributions"], strict=True)
    ]
    told = part.locator(".note").inner_text()
    assert f"“{answer['label']}”" in told
    for name in ("value", "baseline_value", "gap"):
        assert signed(answer[name], 4) in told


def test_attributions_are_asked_for_only_when_they_are_looked_at(asked: Visit) -> None:
    paths = questions(asked)
    asked.ask("A superb film.")
    assert paths == ["/attention"]

    asked.part(".attributions summary").click()
    asked.part(".attributions li").first.wait_for()
    asked.ask("A dull film.")
    asked.part(".attributions li", 0).get_by_text("dull").wait_for()
    assert paths == ["/attention", "/attributions", "/attention", "/attributions"]


def test_heads_are_marked_by_their_importance(asked: Visit, client: httpx.Client) -> None:
    answer = client.post("/importance", json={"sentence": SENTENCE}).json()
    asked.page.get_by_label("Mark importance").check()
    asked.part(".grid.marked").wait_for()

    names = asked.part(".cell button").evaluate_all(
        "buttons => buttons.map(button => button.getAttribute('aria-label'))"
    )
    widths = asked.part(".mark").evaluate_all("marks => marks.map(mark => mark.style.width)")
    values = [value for row in answer["importance"] for value in row]
    for name, width, value in zip(names, widths, values, strict=True):
        assert name.endswith(f" Importance {value:.8f}.")
        assert float(width.removesuffix("%")) == pytest.approx(100 * value / max(values), abs=0.051)

    asked.page.get_by_label("Mark importance").uncheck()
    assert asked.part(".grid.marked").count() == 0
    assert "Importance" not in (asked.head(0, 0).get_attribute("aria-label") or "")


def test_marks_stay_when_the_colours_change(asked: Visit) -> None:
    asked.page.get_by_label("Mark importance").check()
    asked.part(".grid.marked").wait_for()
    name = asked.head(0, 0).get_attribute("aria-label") or ""
    assert "Importance" in name
    with asked.redrawn():
        asked.page.emulate_media(color_scheme="dark")

    asked.part(".grid.marked").wait_for()
    assert asked.head(0, 0).get_attribute("aria-label") == name


def test_two_lines_are_not_two_sentences(asked: Visit, client: httpx.Client) -> None:
    first, second = "A superb film.", "A dull film."
    asked.page.get_by_label("Mark importance").check()
    asked.ask(f"{first}\n{second}")
    asked.part(".grid.marked").wait_for()
    asked.ask(first, second)

    for panel, sentence in enumerate((first, second)):
        asked.part(".grid.marked", panel).wait_for()
        answer = client.post("/importance", json={"sentence": sentence}).json()
        name = asked.head(2, 5, panel).get_attribute("aria-label") or ""
        assert name.endswith(f" Importance {answer['importance'][2][5]:.8f}.")


@pytest.mark.parametrize("path", ["attributions", "importance"])
def test_a_service_that_does_not_offer_it(asked: Visit, path: str) -> None:
    def refuse(route: Route) -> None:
        route.fulfill(status=404, json={"type": "/problems/not-found", "detail": "Nothing."})

    asked.page.route(f"**/{path}", refuse)
    if path == "attributions":
        asked.part(".attributions summary").click()
        asked.part(".attributions").wait_for(state="hidden")
    else:
        asked.page.get_by_label("Mark importance").click()
        asked.page.locator("#importance-choice").wait_for(state="hidden")
    assert asked.page.locator("#problem").is_hidden()
    asked.complained("404")
