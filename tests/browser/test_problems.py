"""Whatever goes wrong is said kindly, with what to do."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Route, expect

from tests.browser.routes import hold, refuse
from tests.browser.visits import Visit, window
from tests.end_to_end.servers import RunningService, service


@pytest.fixture(scope="module")
def tiny(
    checkpoint_folder: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[RunningService]:
    """A service that reads 32 tokens."""
    with service(checkpoint_folder, tmp_path_factory.mktemp("tiny")) as running:
        yield running


def submit(visit: Visit, sentence: str) -> None:
    """Asks without waiting for an answer."""
    visit.page.get_by_label("Sentence", exact=True).fill(sentence)
    visit.page.get_by_role("button", name="Show its heads").click()


def test_a_service_that_has_gone_and_comes_back(browser: Browser, tiny: RunningService) -> None:
    with window(browser, tiny.url) as visit:
        visit.ask("A superb film.")
        visit.page.route("**/attention", lambda route: route.abort("connectionrefused"))
        submit(visit, "Another film.")

        told = visit.problem()
        assert "The service cannot be reached." in told
        assert visit.page.locator("#results").is_hidden()  # what is there is of another sentence
        visit.complained("net::ERR_CONNECTION_REFUSED")

        visit.page.unroute("**/attention")
        with visit.redrawn():
            visit.page.get_by_role("button", name="Try again").click()
        assert visit.page.locator("#problem").is_hidden()
        assert visit.part(".strip button").count() == 9  # "another" is spelled in pieces


def test_a_service_that_was_stopped(
    browser: Browser, checkpoint_folder: Path, tmp_path: Path
) -> None:
    stopped = service(checkpoint_folder, tmp_path)
    with stopped as running, window(browser, running.url) as visit:
        visit.ask("A superb film.")
        running.process.kill()
        running.process.wait()
        submit(visit, "Another film.")

        assert "The service cannot be reached." in visit.problem()
        visit.complained("net::ERR_")


def test_an_overloaded_service_says_when_to_come_back(visit: Visit) -> None:
    refuse(visit, 503, "overloaded", retry_after=7)
    submit(visit, "A superb film.")

    told = visit.problem()
    assert "The service has more to do than it can answer just now. Try again in 7 seconds." in told
    visit.complained("503")

    visit.page.unroute("**/attention")
    with visit.redrawn():
        visit.page.get_by_role("button", name="Try again").click()
    assert visit.page.locator("#problem").is_hidden()


@pytest.mark.parametrize(
    ("status", "kind", "title", "again"),
    [
        (504, "timeout", "The answer took too long.", True),
        (503, "draining", "This copy of the service is shutting down.", True),
        (500, "internal", "The service failed.", True),
        (413, "payload-too-large", "The text is too long to be sent.", False),
        (422, "text-too-long", "The text is too long for the model.", False),
        (413, "too-many-weights", "These are too many weights for one answer.", False),
        (408, "timeout", "The answer took too long.", True),
        (429, "overloaded", "The service has more to do than it can answer just now.", True),
    ],
)
def test_other_problems(visit: Visit, status: int, kind: str, title: str, again: bool) -> None:
    refuse(visit, status, kind)
    submit(visit, "A superb film.")

    assert title in visit.problem()
    assert visit.page.get_by_role("button", name="Try again").is_visible() == again
    visit.complained(str(status))


def test_the_first_question_says_that_it_is_on_its_way(visit: Visit) -> None:
    status = visit.page.get_by_role("status")
    held = hold(visit)
    submit(visit, "A superb film.")
    answer = held.wait_for(1)
    assert status.inner_text() == "Asking …"
    box = status.bounding_box()
    assert box is not None
    assert box["height"] > 10
    with visit.redrawn():
        answer.continue_()
    expect(status).to_have_class("unseen")
    assert "Asking" not in status.inner_text()

    submit(visit, "Another film.")
    held.wait_for(2)
    assert status.inner_text() == "Asking …"
    expect(status).to_have_class("unseen")  # the answer in hand turns pale
    held.routes[1].abort()
    visit.problem()
    visit.complained("net::ERR_FAILED")
    assert status.inner_text() == ""
    expect(status).to_have_class("unseen")


def test_what_is_not_the_services_answer(visit: Visit) -> None:
    visit.page.route(
        "**/attention", lambda route: route.fulfill(status=502, body="<h1>Bad gateway</h1>")
    )
    submit(visit, "A superb film.")

    assert "The answer has status 502 and says no more." in visit.problem()
    visit.complained("502")


@pytest.mark.parametrize("text", ["   ", "\n \n"])
def test_a_blank_text(visit: Visit, text: str) -> None:
    submit(visit, text)

    assert "There is nothing to read. Type a sentence first." in visit.problem()
    expect(visit.page.get_by_label("Sentence", exact=True)).to_be_focused()


def test_a_text_of_which_nothing_is_left(visit: Visit) -> None:
    submit(visit, "\u200b\u200d")

    assert "the text is blank" in visit.problem()
    visit.complained("422")


def test_a_text_that_is_cut_says_so(browser: Browser, tiny: RunningService) -> None:
    with window(browser, tiny.url) as visit:
        visit.ask("a very long film " * 20)

        told = visit.part(".cut").inner_text()
        assert told == (
            "The text is longer than the model reads: its end was cut off after 32 tokens."
        )
        assert visit.part(".strip button").count() == 32


def test_a_service_with_keys_asks_for_one(
    browser: Browser, checkpoint_folder: Path, tmp_path: Path
) -> None:
    keyed = service(checkpoint_folder, tmp_path, settings={"HEADLIGHT_API_KEYS": "right"})
    with keyed as running, window(browser, running.url) as visit:
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
        assert visit.part(".strip button").count() == 6
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
    expect(visit.page.locator("#results[aria-busy]")).to_have_count(1)
    with visit.page.expect_event("requestfailed") as failed:
        visit.ask("A second one.")

    assert (failed.value.post_data_json or {})["sentence"] == "The first text."
    assert len(held) == 1
    assert visit.page.locator("#problem").is_hidden()
    assert visit.part(".strip button").all_inner_texts()[1:3] == ["a", "second"]


def test_a_view_that_cannot_be_had_leaves_the_one_in_hand(visit: Visit) -> None:
    visit.ask("A superb film.")
    refuse(visit, 413, "too-many-weights")
    visit.page.locator("input[name=reduce][value=rollout]").click()

    assert "These are too many weights" in visit.problem()
    expect(visit.page.locator("input[name=reduce][value=none]")).to_be_checked()
    assert visit.part(".overview-title").inner_text() == "72 heads"
    visit.complained("413")


def before_the_problem(visit: Visit) -> str:
    """The part that the box stands right below."""
    visit.problem()
    found: str = visit.page.evaluate(
        """() => {
          const { id, className } = document.querySelector('#problem').previousElementSibling;
          return id || className;
        }"""
    )
    return found


@pytest.mark.parametrize(
    ("act", "path", "place"),
    [
        (
            lambda visit: visit.page.locator("input[name=level][value=word]").click(),
            "attention",
            "controls",
        ),
        (
            lambda visit: visit.page.get_by_label("Mark importance").click(),
            "importance",
            "controls",
        ),
        (lambda visit: visit.part(".leave button").nth(1).click(), "predict", "outcome"),
        (lambda visit: visit.part(".save button[value=csv]").click(), "attention", "save row"),
        (lambda visit: visit.part(".how-made").click(), "attention/steps", "quiet how-made"),
        (lambda visit: visit.part(".attributions summary").click(), "attributions", "attributions"),
        (
            lambda visit: visit.page.get_by_role("button", name="Show its heads").click(),
            "attention",
            "ask",
        ),
    ],
)
def test_a_problem_is_told_where_the_action_was(
    visit: Visit, act: Callable[[Visit], None], path: str, place: str
) -> None:
    visit.ask("A superb film.")
    visit.part(".how", 0).filter(has_text="Integrated").wait_for()
    refuse(visit, 500, "internal", path=path)
    act(visit)

    assert before_the_problem(visit) == place
    expect(visit.page.locator("#problem")).to_be_in_viewport()
    assert visit.page.locator("#problem").get_attribute("role") == "alert"
    visit.complained("500")

    visit.page.unroute(f"**/{path}")
    visit.page.get_by_role("button", name="Try again").click()
    expect(visit.page.locator("#problem")).to_be_hidden()
    assert visit.page.locator("#ask + #problem").count() == 1
