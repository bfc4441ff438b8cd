"""Whatever goes wrong is said kindly and in its place, and can be tried again."""

from typing import Any

from playwright.sync_api import Route, expect

from tests.browser.routes import problem_of, refuse
from tests.browser.visits import Visit

SENTENCE = "The plot drags, but the cast is superb."


def submit(visit: Visit, sentence: str) -> None:
    """Asks without waiting for an answer."""
    visit.page.get_by_label("Text", exact=True).fill(sentence)
    visit.page.get_by_role("button", name="Read it", exact=True).click()


def test_each_problem_is_named_and_only_some_can_be_tried_again(visit: Visit) -> None:
    visit.ask("A superb film.")
    answer: dict[str, Any] = {}

    def fail(route: Route) -> None:
        if answer["status"]:
            route.fulfill(**answer)
        else:
            route.abort("connectionrefused")

    visit.page.route("**/attention", fail)
    for status, kind, title, again in (
        (504, "timeout", "The request took too long. Details.", True),
        (413, "payload-too-large", "The body is too large. Details.", False),
        (429, "overloaded", "The service is overloaded. Details.", True),
        (503, "overloaded", "The service is overloaded. Details. Try again in 7 seconds.", True),
        (502, "", "That did not work. The answer has status 502 and no explanation.", True),
        (0, "", "The service cannot be reached.", True),
    ):
        answer = problem_of(status, kind, retry_after=7 if status == 503 else None)
        if status == 502:
            answer = {"status": 502, "body": "<h1>Bad gateway</h1>"}
        submit(visit, "Another film.")
        expect(visit.page.locator("#problem")).to_contain_text(title)
        assert visit.page.get_by_role("button", name="Try again").is_visible() == again
        assert visit.page.locator("#results").is_hidden()  # they belong to another sentence
        visit.complained(str(status) if status else "net::ERR_CONNECTION_REFUSED")
    visit.page.unroute("**/attention")
    visit.try_again()
    assert visit.page.locator("#problem").is_hidden()
    assert visit.tokens()[1:3] == ["another", "film"]


def test_a_blank_text(visit: Visit) -> None:
    submit(visit, " \n \n")
    assert "There is nothing to read. Type a sentence first." in visit.problem()
    expect(visit.page.get_by_label("Text", exact=True)).to_be_focused()


def test_a_service_with_keys_asks_for_one(visit_keyed: Visit) -> None:
    visit = visit_keyed
    key = visit.page.get_by_label("API key")
    expect(key).to_be_hidden()
    submit(visit, "A superb film.")
    assert "This service needs an API key." in visit.problem()
    visit.complained("401")
    expect(key).to_be_focused()
    key.fill("wrong")
    key.press("Enter")
    expect(visit.page.locator("#problem-title")).to_have_text("This API key was refused.")
    assert visit.page.get_by_role("button", name="Try again").is_hidden()
    visit.complained("401")
    key.fill("long\u2013dash")
    key.press("Enter")
    expect(visit.page.locator("#problem-title")).to_have_text("This API key cannot be sent.")
    assert "a character that no request can carry" in visit.problem()
    assert visit.page.get_by_role("button", name="Try again").is_hidden()
    expect(key).to_be_focused()
    key.fill("right")
    with visit.redrawn():
        key.press("Enter")
    assert visit.page.locator("#problem").is_hidden()
    assert len(visit.tokens()) == 6
    assert "right" not in visit.page.url


def test_a_later_question_drops_an_earlier_one(visit: Visit) -> None:
    held: list[Route] = []

    # Stays in place to the end: taking it away would let go of what it holds.
    def hold_the_first(route: Route) -> None:
        if held:
            route.continue_()
        else:
            held.append(route)

    visit.page.route("**/attention", hold_the_first)
    submit(visit, "The first text.")
    expect(visit.page.get_by_role("status")).to_have_text("Asking …")
    with visit.page.expect_event("requestfailed") as failed:
        visit.ask("A second one.")
    assert (failed.value.post_data_json or {})["sentence"] == "The first text."
    assert len(held) == 1
    assert visit.page.locator("#problem").is_hidden()
    assert visit.tokens()[1:3] == ["a", "second"]


def test_a_problem_is_shown_where_the_action_was(visit: Visit) -> None:
    visit.ask("A superb film.")
    page = visit.page
    for button, path, place in (
        (visit.menu("Save").get_by_role("button", name="JSON"), "attention", "save row"),
        (visit.part(".switch"), "predict", "row"),
        (visit.part(".how-made"), "attention/steps", "row"),
        # Goes on asking while the next one fails.
        (visit.part(".find"), "predict", "groups"),
        (page.get_by_role("button", name="Read it", exact=True), "attention", "ask"),
    ):
        refuse(visit, 500, "internal", path=path)
        button.click()
        visit.problem()
        before = "problem.previousElementSibling.className || problem.previousElementSibling.id"
        assert page.evaluate(before) == place
        expect(page.locator("#problem")).to_be_in_viewport()
        assert page.locator("#problem").get_attribute("role") == "alert"
        visit.complained("500")
        page.unroute(f"**/{path}")
        page.get_by_role("button", name="Try again").click()
        expect(page.locator("#problem")).to_be_hidden()
