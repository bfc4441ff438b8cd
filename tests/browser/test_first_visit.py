"""The first visit shows an example: a verdict and its reasons, and a head that matters."""

import re

import httpx
import pytest
from playwright.sync_api import Browser, expect

from tests.browser.routes import questions, refuse
from tests.browser.visits import Visit, come
from tests.end_to_end.servers import RunningService

EXAMPLE = "The plot drags, but the cast is superb."


def test_it_shows_an_example_with_its_verdict_and_reason(
    visit: Visit, client: httpx.Client
) -> None:
    come(visit)
    answer = client.post("/predict", json={"sentences": [EXAMPLE]}).json()["predictions"][0]
    assert visit.page.get_by_label("Text", exact=True).input_value() == EXAMPLE
    part = visit.page.locator("#answer")
    assert part.locator(".verdict").inner_text() == answer["label"].title()
    reason = f"“superb” positive\u00a0{100 * answer['score']:.0f} → "
    expect(part.locator(".reasons dd").first).to_contain_text(reason)
    expect(visit.page.locator("nav [aria-current=page]")).to_have_text("One review")
    expect(visit.page.locator("#heads-tab")).to_be_hidden()
    assert visit.page.evaluate("window.scrollY") == 0
    assert visit.page.evaluate("document.activeElement.tagName") == "BODY"
    said = f"positive, {100 * answer['score']:.0f} %. Because of “superb”."
    expect(visit.page.locator("#status")).to_have_text(said)


def test_its_heads_begin_with_the_one_that_looks_at_a_word(visit: Visit) -> None:
    come(visit)
    asked = questions(visit)
    with visit.redrawn():
        visit.page.get_by_role("link", name="Inside the model", exact=True).click()
    assert set(asked) <= {"/attention", "/importance"}
    place, looks = visit.part(".place").inner_text(), visit.part(".pattern").inner_text()
    assert re.fullmatch(r"\d+ of 13 tokens look most at “superb”\.", looks)
    heads = visit.part(".cell button").evaluate_all("all => all.map((each) => each.title)")
    assert any(head.startswith(f"{place}. {looks}") for head in heads)
    # The picture comes at once, and few controls stand beside the grid.
    assert visit.part(".map svg").evaluate("one => one.getBoundingClientRect().bottom") < 900
    controls = visit.page.locator("#heads-tab :is(button, input, select, summary)")
    assert controls.count() - len(heads) <= 20
    # The next text keeps that head, as any that was chosen.
    visit.ask("A dull film.")
    expect(visit.part(".place")).to_have_text(place)


@pytest.mark.parametrize(
    ("kind", "said"),
    [("not-ready", "The model is still loading."), ("overloaded", "The service is busy.")],
)
def test_a_service_that_cannot_answer_yet_is_asked_again_by_itself(
    visit: Visit, kind: str, said: str
) -> None:
    page = visit.page
    for path in ("model", "predict"):
        refuse(visit, 503, kind, retry_after=1, path=path)
    page.evaluate("history.replaceState(null, '', location.pathname)")
    page.reload()
    expect(page.locator("#waiting")).to_have_text(f"{said} This page asks again by itself.")
    expect(page.get_by_role("status")).to_have_text(f"{said} This page asks again by itself.")
    assert page.locator("#waiting span").first.bounding_box() is not None
    assert page.locator("#problem").count() == 0
    for path in ("model", "predict"):
        page.unroute(f"**/{path}")
    expect(page.locator("#answer .verdict")).to_have_text("Positive")
    visit.complained("503")


def test_a_page_that_has_not_loaded_whole_says_so(
    browser: Browser, running: RunningService
) -> None:
    context = browser.new_context()
    page = context.new_page()
    page.route("**/parts.js", lambda route: route.abort())
    page.goto(f"{running.url}/#quiet")
    expect(page.locator("#unloaded")).to_be_visible()
    expect(page.locator("#unloaded")).to_contain_text("Reload it")
    page.unroute("**/parts.js")
    page.reload()
    expect(page.locator("#unloaded")).to_have_count(0)
    context.close()


def test_nothing_is_asked_where_a_link_or_a_key_comes_first(
    visit: Visit, visit_keyed: Visit
) -> None:
    for each, fragment in ((visit, "#quiet"), (visit, "#head=3"), (visit_keyed, "")):
        each.page.goto("about:blank")
        asked = questions(each)
        each.open(fragment)
        each.page.wait_for_load_state("networkidle")
        assert asked == []
        assert each.page.locator("#results").is_hidden()
        assert each.page.locator("#answer").is_hidden()
