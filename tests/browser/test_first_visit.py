"""The first visit shows an example: a verdict and its reasons, and a head that matters."""

import re

import httpx
from playwright.sync_api import Browser, expect

from tests.browser.routes import questions, refuse
from tests.browser.visits import Visit, come, read
from tests.end_to_end.servers import RunningService

EXAMPLE = "The plot drags, but the cast is superb."


def test_it_shows_an_example_with_its_verdict_and_reason(
    visit: Visit, client: httpx.Client
) -> None:
    come(visit)
    answer = client.post("/predict", json={"sentences": [EXAMPLE]}).json()["predictions"][0]
    assert visit.page.get_by_label("Text", exact=True).input_value() == EXAMPLE
    part = visit.page.locator("#answer")
    assert part.locator(".label").inner_text() == answer["label"]
    assert part.locator(".score").get_attribute("title") == str(answer["score"])
    expect(part.locator(".because")).to_contain_text("Without “superb.”, positive falls from 9")
    expect(visit.page.locator("nav [aria-current=page]")).to_have_text("A text")
    expect(visit.page.locator("#heads-tab")).to_be_hidden()
    assert visit.page.evaluate("window.scrollY") == 0
    assert visit.page.evaluate("document.activeElement.tagName") == "BODY"
    label, score = " ".join(part.locator(".verdict").inner_text().split()).split(" ", 1)
    expect(visit.page.locator("#status")).to_have_text(f"An example: {label}, {score}.")


def test_its_heads_begin_with_the_one_that_looks_at_a_word(visit: Visit) -> None:
    come(visit)
    asked = questions(visit)
    with visit.redrawn():
        visit.page.get_by_role("link", name="Heads", exact=True).click()
    assert set(asked) <= {"/attention", "/importance"}
    place, looks = visit.part(".place").inner_text(), visit.part(".pattern").inner_text()
    assert re.fullmatch(r"\d+ of 13 tokens look most at “superb”\.", looks)
    heads = visit.part(".cell button").evaluate_all("all => all.map((each) => each.title)")
    assert f"{place}. {looks}" in heads
    # The picture comes at once, and few controls stand beside the grid.
    assert visit.part(".map svg").evaluate("one => one.getBoundingClientRect().bottom") < 900
    controls = visit.page.locator("#heads-tab :is(button, input, select, summary)")
    assert controls.count() - len(heads) <= 20
    # The next text keeps that head, as any that was chosen.
    visit.ask("A dull film.")
    expect(visit.part(".place")).to_have_text(place)


def test_a_service_that_cannot_answer_is_not_complained_about(visit: Visit) -> None:
    refuse(visit, 503, "overloaded", retry_after=3, path="predict")
    visit.page.evaluate("history.replaceState(null, '', location.pathname)")
    visit.page.reload()
    visit.complained("503")
    visit.page.wait_for_load_state("networkidle")
    assert visit.page.locator("#problem").is_hidden()
    assert visit.page.locator("#answer").is_hidden()
    visit.page.unroute("**/predict")
    read(visit, "A superb film.")
    assert visit.page.locator("#answer .label").inner_text() == "positive"


def test_a_page_that_has_not_loaded_whole_says_so(
    browser: Browser, running: RunningService
) -> None:
    context = browser.new_context()
    page = context.new_page()
    page.route("**/words.js", lambda route: route.abort())
    page.goto(f"{running.url}/#quiet")
    expect(page.locator("#unloaded")).to_be_visible()
    expect(page.locator("#unloaded")).to_contain_text("Reload it")
    page.unroute("**/words.js")
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
