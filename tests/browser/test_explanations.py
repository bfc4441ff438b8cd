"""What stands beside attention: how much the prediction depends on each head."""

import httpx
import pytest
from playwright.sync_api import Route

from tests.browser.visits import Visit

TEXT = "The plot drags, but the cast is superb."


@pytest.fixture
def asked(visit: Visit) -> Visit:
    """The page with an answer."""
    visit.ask(TEXT)
    return visit


def test_heads_are_marked_by_their_importance(asked: Visit, client: httpx.Client) -> None:
    answer = client.post("/importance", json={"sentence": TEXT}).json()
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


def test_a_service_that_does_not_offer_them(asked: Visit) -> None:
    def refuse(route: Route) -> None:
        route.fulfill(status=404, json={"type": "/problems/not-found", "detail": "Nothing."})

    asked.page.route("**/importance", refuse)
    asked.page.get_by_label("Mark importance").click()
    asked.page.locator("#importance-choice").wait_for(state="hidden")
    assert asked.page.locator("#problem").is_hidden()
    asked.complained("404")
