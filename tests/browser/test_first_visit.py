"""The first visit shows an example: a verdict, its reasons, and a head that matters."""

from pathlib import Path

import httpx
import pytest
from playwright.sync_api import Browser, ViewportSize, expect

from tests.browser.answers import percent
from tests.browser.routes import questions, refuse
from tests.browser.test_accessibility import violations
from tests.browser.visits import NARROW, WIDE, Scheme, Visit, window
from tests.end_to_end.servers import ROOT, RunningService, service

EXAMPLE = "The plot drags, but the cast is superb."
#: what a head looks at that tells nothing of the text
PLAIN = ("at themselves", "before them", "after them", "at [", "almost evenly", "at punctuation")


def come(visit: Visit) -> None:
    """Comes to the page as somebody who has never been there, and waits for the example."""
    with visit.redrawn():
        visit.page.evaluate("history.replaceState(null, '', location.pathname)")
        visit.page.reload()
    visit.part(".because:not(:empty)").wait_for()


def test_it_shows_an_example_with_a_head_that_matters(visit: Visit, client: httpx.Client) -> None:
    come(visit)
    answer = client.post("/predict", json={"sentences": [EXAMPLE]}).json()["predictions"][0]
    assert visit.page.get_by_label("Sentence", exact=True).input_value() == EXAMPLE
    assert visit.part(".label").inner_text() == answer["label"]
    assert percent(answer["score"]) in visit.part(".verdict").inner_text()
    # Integrated gradients come after the gradient alone.
    expect(visit.part(".because")).to_contain_text("superb")

    importance = client.post("/importance", json={"sentence": EXAMPLE}).json()["importance"]
    told = visit.part(".cell button").evaluate_all(
        "buttons => buttons.map((button) => button.getAttribute('aria-label'))"
    )
    telling = [at for at, words in enumerate(told) if not any(each in words for each in PLAIN)]
    assert 5 < len(telling) < len(told)
    best = max(telling, key=lambda at: importance[at // 12][at % 12])
    expect(visit.part(".place")).to_have_text(f"Layer {best // 12}, head {best % 12}")
    # The next text keeps that head, as any that was chosen.
    visit.ask("A dull film.")
    expect(visit.part(".place")).to_have_text(f"Layer {best // 12}, head {best % 12}")


def test_it_stays_where_one_is(visit: Visit) -> None:
    come(visit)
    assert visit.page.evaluate("window.scrollY") == 0
    assert visit.page.evaluate("document.activeElement.tagName") == "BODY"
    label, score = visit.part(".label").inner_text(), visit.part(".score").inner_text()
    expect(visit.page.locator("#status")).to_have_text(
        f"An example: {label}, {score}, 13 tokens. The heads are shown below."
    )


@pytest.mark.parametrize("fragment", ["#quiet", "#head=3"])
def test_an_address_that_says_something_has_no_example(visit: Visit, fragment: str) -> None:
    visit.page.goto("about:blank")
    asked = questions(visit)
    visit.open(fragment)
    visit.page.wait_for_load_state("networkidle")

    assert asked == []
    assert visit.page.locator("#results").is_hidden()


def test_a_service_that_cannot_answer_is_not_complained_about(visit: Visit) -> None:
    refuse(visit, 503, "overloaded", retry_after=3)
    visit.page.evaluate("history.replaceState(null, '', location.pathname)")
    visit.page.reload()
    visit.complained("503")
    visit.page.wait_for_load_state("networkidle")

    assert visit.page.locator("#problem").is_hidden()
    assert visit.page.locator("#results").is_hidden()
    visit.page.unroute("**/attention")
    visit.ask("A superb film.")
    assert visit.part(".label").inner_text() == "positive"


def test_without_importance_another_head_is_shown(visit: Visit) -> None:
    refuse(visit, 503, "overloaded", path="importance")
    come(visit)

    visit.complained("503")
    assert visit.page.locator("#problem").is_hidden()
    assert visit.part(".place").inner_text().startswith("Layer ")


def test_with_keys_it_waits_for_one(browser: Browser, tmp_path: Path) -> None:
    keys = {"HEADLIGHT_API_KEYS": "secret-key"}
    keyed = service(ROOT / "checkpoints" / "default", tmp_path, settings=keys)
    with keyed as running, window(browser, running.url) as visit:
        asked = questions(visit)
        visit.page.evaluate("history.replaceState(null, '', location.pathname)")
        visit.page.reload()
        visit.page.wait_for_load_state("networkidle")

        assert asked == []
        assert visit.page.locator("#how").is_visible()


@pytest.mark.parametrize(
    ("width", "scheme"), [(WIDE, "light"), (WIDE, "dark"), (NARROW, "light"), (NARROW, "dark")]
)
def test_it_is_accessible(
    browser: Browser, running: RunningService, screenshots: Path, width: int, scheme: Scheme
) -> None:
    with window(browser, running.url, width=width, scheme=scheme) as visit:
        come(visit)
        picture = screenshots / f"first-visit-{scheme}-{width}.png"
        visit.page.screenshot(path=picture, full_page=True)
        assert violations(visit) == []


def test_a_finger_taps(browser: Browser, running: RunningService) -> None:
    size = ViewportSize(width=400, height=800)
    context = browser.new_context(has_touch=True, is_mobile=True, viewport=size)
    page = context.new_page()
    page.goto(f"{running.url}/")
    page.locator(".readout:not(:empty)").first.wait_for()

    assert page.locator(".readout").first.inner_text() == "Tap a token."
    assert "then tap a token" in page.locator("#how").inner_text()
    assert "oint at" not in page.locator("main").inner_text()
    context.close()


def test_a_page_that_has_not_loaded_whole_says_so(
    browser: Browser, running: RunningService
) -> None:
    context = browser.new_context()
    page = context.new_page()
    page.route("**/npz.js", lambda route: route.abort())
    page.goto(f"{running.url}/#quiet")
    expect(page.locator("#unloaded")).to_be_visible()
    expect(page.locator("#unloaded")).to_contain_text("Reload it")

    page.unroute("**/npz.js")
    page.reload()
    expect(page.locator("#unloaded")).to_have_count(0)
    context.close()
