"""What failed is done once more, and nothing of what failed spoils what comes after."""

from pathlib import Path

import pytest
from playwright.sync_api import Browser, Locator, expect

from tests.browser.routes import hold, problem_of, questions, refuse
from tests.browser.visits import Visit, window
from tests.end_to_end.servers import service

SENTENCE = "The plot drags, but the cast is superb."


@pytest.fixture
def asked(visit: Visit) -> Visit:
    """The page with a view that a new answer would take back."""
    visit.ask(SENTENCE)
    visit.head(3, 8).click()
    visit.set("picture", "map")
    return visit


def again(visit: Visit) -> Locator:
    """The button."""
    return visit.page.get_by_role("button", name="Try again")


def test_a_failed_save_is_saved(asked: Visit) -> None:
    refuse(asked, 503, "overloaded")
    button = asked.part(".save").get_by_role("button", name="CSV", exact=True)
    button.click()
    asked.problem()
    asked.complained("503")
    asked.page.unroute("**/attention")

    with asked.page.expect_download() as waiting:
        again(asked).click()
    assert waiting.value.suggested_filename == "headlight-layer-3-head-8.csv"
    expect(button).to_be_focused()
    assert asked.page.locator("#problem").is_hidden()
    assert asked.part(".place").inner_text() == "Layer 3, head 8"
    assert asked.part(".map canvas").is_visible()


def test_failed_attributions_are_asked_for(asked: Visit) -> None:
    refuse(asked, 503, "overloaded", path="attributions")
    summary = asked.part(".attributions summary")
    summary.click()
    asked.problem()
    asked.complained("503")
    asked.page.unroute("**/attributions")

    paths = questions(asked)
    again(asked).click()
    asked.part(".attributions li").first.wait_for()
    assert paths == ["/attributions"]
    expect(summary).to_be_focused()


def test_failed_importance_is_asked_for(asked: Visit) -> None:
    refuse(asked, 503, "overloaded", path="importance")
    box = asked.page.get_by_label("Mark importance")
    box.click()
    asked.problem()
    asked.complained("503")
    expect(box).not_to_be_checked()
    asked.page.unroute("**/importance")

    paths = questions(asked)
    again(asked).click()
    asked.part(".grid.marked").wait_for()
    assert paths == ["/importance"]
    expect(box).to_be_checked()
    expect(box).to_be_focused()


def test_a_failed_view_is_asked_for_with_what_was_chosen_since(asked: Visit) -> None:
    refuse(asked, 503, "overloaded")
    asked.page.locator("input[name=level][value=word]").click()
    asked.problem()
    asked.complained("503")
    expect(asked.page.locator("input[name=level][value=token]")).to_be_checked()
    asked.head(0, 5).click()
    asked.page.unroute("**/attention")

    with asked.redrawn():
        again(asked).click()
    expect(asked.page.locator("input[name=level][value=word]")).to_be_checked()
    assert asked.part(".place").inner_text() == "Layer 0, head 5"


def test_the_focus_goes_to_the_question_where_what_had_it_is_gone(asked: Visit) -> None:
    refuse(asked, 503, "overloaded")
    asked.page.get_by_label("Sentence", exact=True).fill("Another film.")
    asked.head(0, 0).focus()
    asked.page.evaluate("document.getElementById('ask').requestSubmit()")
    asked.problem()
    asked.complained("503")
    asked.page.unroute("**/attention")
    with asked.redrawn():
        again(asked).click()
    expect(asked.page.get_by_role("button", name="Show its heads")).to_be_focused()


def test_one_of_two_that_fails_ends_the_other(
    browser: Browser, checkpoint_folder: Path, tmp_path: Path
) -> None:
    limited = service(checkpoint_folder, tmp_path, "--max-attention-weights", "130")
    with limited as running, window(browser, running.url) as visit:
        held = hold(visit)
        visit.page.get_by_label("Compare with a second sentence").check()
        visit.page.get_by_label("Sentence", exact=True).fill("a warm and very superb film")
        visit.page.get_by_label("Second sentence", exact=True).fill("a film")
        visit.page.get_by_role("button", name="Show its heads").click()
        held.wait_for(2)
        first, second = sorted(held.routes, key=lambda route: str(route.request.post_data))[::-1]
        first.continue_()
        # Its maps are too many for one answer: its second part is held.
        held.wait_for(3)
        expect(visit.page.locator("#progress")).to_be_visible()
        with visit.page.expect_event("requestfailed") as ended:
            second.fulfill(**problem_of(503, "overloaded"))

        assert ended.value.post_data == held.routes[-1].request.post_data
        visit.problem()
        visit.complained("503")
        expect(visit.page.locator("#progress")).to_be_hidden()
        expect(visit.page.locator("#results[aria-busy]")).to_have_count(0)


def break_off(visit: Visit, path: str) -> None:
    """Answers a path once with a problem that never ends, until it is given up."""
    visit.page.evaluate(
        """(path) => {
          const ask = window.fetch;
          window.fetch = async (address, options) => {
            if (!String(address).endsWith(path) || window.broken) return ask(address, options);
            const body = new ReadableStream({
              start(controller) {
                window.broken = true;
                options.signal.addEventListener('abort', () => {
                  controller.error(new DOMException('given up', 'AbortError'));
                });
              },
            });
            return new Response(body, { status: 413 });
          };
        }""",
        path,
    )


@pytest.mark.parametrize("path", ["/attention", "/attributions"])
def test_an_error_that_is_still_being_read_is_dropped_too(visit: Visit, path: str) -> None:
    visit.ask("The first text.")
    break_off(visit, path)
    if path == "/attributions":
        visit.part(".attributions summary").click()
    else:
        visit.page.get_by_role("button", name="Show its heads").click()
    visit.page.evaluate(
        "async () => { while (!window.broken) await new Promise(requestAnimationFrame); }"
    )
    visit.ask("A second one.")

    assert visit.page.locator("#problem").is_hidden()
    assert visit.part(".strip button").all_inner_texts()[1:3] == ["a", "second"]
