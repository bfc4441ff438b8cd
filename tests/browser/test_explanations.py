"""What stands beside attention: attributions of words and tokens, and the importance of heads."""

import re
from typing import Any

import httpx
import pytest
from playwright.sync_api import Route, expect

from tests.browser.routes import body_of, problem_of, questions, refuse
from tests.browser.visits import Visit, signed

TEXT = "The plot drags, but the cast is superb."


def attributions(client: httpx.Client, **fields: object) -> dict[str, Any]:
    """What the service says by word."""
    body = {"sentence": TEXT, "level": "word", **fields}
    response = client.post("/attributions", json=body)
    answer: dict[str, Any] = response.json()
    return answer


def words_of(answer: dict[str, Any], count: int = 4) -> str:
    """The words with the largest numbers, as the page shows them."""
    pairs = [
        (token["text"], value)
        for token, value in zip(answer["tokens"], answer["attributions"], strict=True)
        if not token["special"]
    ]
    ranked = sorted(pairs, key=lambda pair: -abs(pair[1]))[:count]
    return ", ".join(f"“{text}” {signed(value, 1)}" for text, value in ranked)


def finished(visit: Visit) -> None:
    """Waits until no more exact numbers are asked for."""
    expect(visit.part(".heard")).to_contain_text("What moved the verdict: ")


def test_the_words_that_moved_it_stand_below_the_verdict_at_once(
    visit: Visit, client: httpx.Client
) -> None:
    visit.ask(TEXT)
    finished(visit)
    steps = int(re.findall(r"in (\d+) steps", visit.part(".how").inner_text())[0])
    answer = attributions(client, steps=steps)
    assert visit.part(".because").inner_text() == words_of(answer)
    assert "superb" in visit.part(".because").inner_text()
    how = visit.part(".how").inner_text()
    assert f"they miss {abs(answer['gap']):.3f} of the " in how
    assert "one measure by convention" in how
    assert abs(answer["gap"]) <= 0.03 * abs(answer["value"] - answer["baseline_value"])
    verdict, reasons, heads = (
        visit.part(name).bounding_box() for name in (".verdict", ".reasons", ".overview")
    )
    assert verdict is not None
    assert reasons is not None
    assert heads is not None
    assert verdict["y"] < reasons["y"] < heads["y"]


def test_the_words_have_the_colours_of_their_numbers(visit: Visit, client: httpx.Client) -> None:
    visit.ask(TEXT)
    finished(visit)
    steps = int(re.findall(r"in (\d+) steps", visit.part(".how").inner_text())[0])
    answer = attributions(client, steps=steps)
    values = [
        value
        for token, value in zip(answer["tokens"], answer["attributions"], strict=True)
        if not token["special"]
    ]
    shown = visit.part(".leave button").evaluate_all(
        "all => all.map(one => [one.title, getComputedStyle(one).backgroundColor])"
    )
    assert [title for title, _ in shown] == [signed(value, 4) for value in values]
    largest = max(map(abs, values))
    for value, (_, colour) in zip(values, shown, strict=True):
        match = re.fullmatch(r"rgba\((\d+, \d+, \d+), ([\d.]+)\)", colour)
        assert match is not None, colour
        assert match[1] == ("176, 74, 0" if value < 0 else "29, 91, 184")
        assert float(match[2]) == pytest.approx(0.45 * abs(value) / largest, abs=0.006)


def test_gradients_come_first_and_stay_if_nothing_better_comes(
    visit: Visit, client: httpx.Client
) -> None:
    asked: list[dict[str, Any]] = []

    def only_gradients(route: Route) -> None:
        asked.append(body_of(route))
        if len(asked) == 1:
            route.continue_()
        else:
            route.fulfill(**problem_of(503, "overloaded", 1))

    visit.page.route("**/attributions", only_gradients)
    visit.ask(TEXT)
    visit.complained("503")
    expect(visit.part(".how")).to_contain_text("More exact numbers are not available: Details.")
    answer = attributions(client, method="gradient_x_input")
    assert visit.part(".because").inner_text() == words_of(answer)
    assert "Gradient times input, which need not add up" in visit.part(".how").inner_text()
    assert [body["method"] for body in asked] == ["gradient_x_input", "integrated_gradients"]
    expect(visit.page.locator("#problem")).to_be_hidden()


def test_no_more_steps_are_asked_for_than_the_service_has_time_for(visit: Visit) -> None:
    def hurried(route: Route) -> None:
        answer = route.fetch().json()
        answer["limits"]["request_timeout"] = 1e-6
        route.fulfill(json=answer)

    visit.page.route("**/model", hurried)
    asked: list[str] = []
    visit.page.on("request", lambda request: asked.append(request.url.removeprefix(visit.url)))
    visit.ask(TEXT)
    finished(visit)
    assert asked.count("/attributions") == 1
    expect(visit.part(".how")).to_contain_text("Gradient times input")
    expect(visit.part(".how")).to_contain_text("More steps would take this service too long.")


def test_without_any_numbers_the_page_says_why(visit: Visit) -> None:
    refuse(visit, 504, "timeout", path="attributions")
    visit.ask(TEXT)
    visit.complained("504")
    expect(visit.part(".how")).to_have_text("What moved the verdict is not known: Details.")
    expect(visit.part(".heard")).to_have_text("What moved the verdict is not known: Details.")
    expect(visit.page.locator("#problem")).to_be_hidden()
    visit.page.unroute("**/attributions")
    visit.set("level", "word")
    finished(visit)


def test_another_view_of_a_sentence_asks_nothing_and_another_sentence_does(
    visit: Visit,
) -> None:
    visit.ask(TEXT)
    finished(visit)
    asked: list[str] = []
    visit.page.on("request", lambda request: asked.append(request.url.removeprefix(visit.url)))
    visit.set("level", "word")
    visit.set("picture", "map")
    assert "/attributions" not in asked
    visit.ask("A dull film.")
    finished(visit)
    assert asked.count("/attributions") >= 2
    assert "dull" in visit.part(".because").inner_text()


@pytest.fixture
def asked(visit: Visit) -> Visit:
    """The page with an answer."""
    visit.ask(TEXT)
    return visit


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
    text = part.locator(".note").inner_text()
    assert f"“{answer['label']}”" in text
    for name in ("value", "baseline_value", "gap"):
        assert signed(answer[name], 4) in text


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

    asked.page.route("**/attributions", refuse)
    asked.page.route("**/importance", refuse)
    asked.part(".attributions summary").click()
    asked.part(".attributions").wait_for(state="hidden")
    asked.complained("404")
    asked.page.get_by_label("Mark importance").click()
    asked.page.locator("#importance-choice").wait_for(state="hidden")
    assert asked.page.locator("#problem").is_hidden()
    asked.complained("404")
