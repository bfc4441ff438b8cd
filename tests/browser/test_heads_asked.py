"""What is asked for a view of the heads: changes in flight, a replaced model, and the address."""

import math
from urllib.parse import parse_qs, urlsplit

import httpx
import pytest
from playwright.sync_api import Browser, Route, expect

from tests.browser.routes import Replaced, heard, questions, refuse
from tests.browser.visits import Visit, percent, window

TEXT = "The plot drags, but the cast is superb."
SENTENCE = "The plot drags & drags, but 100 % of the cast is “superb” #1."
CHANGED = "The model is being replaced just now. Answers came from two versions of it."


@pytest.fixture
def asked(visit: Visit) -> Visit:
    """The page with an answer and a head chosen."""
    visit.ask(SENTENCE)
    visit.choose(3, 8)
    return visit


def click(visit: Visit, name: str, value: str) -> None:
    """Chooses a view without waiting for it."""
    visit.menu("View").locator(f"[name={name}]").select_option(value)


def fields(visit: Visit) -> dict[str, list[str]]:
    """What the address says of the view."""
    return parse_qs(urlsplit(visit.page.url).fragment.removeprefix("model&"))


def addressed(visit: Visit, expected: dict[str, list[str]]) -> None:
    """Waits until the address has these fields."""
    visit.wait_until(lambda: fields(visit) == expected)
    assert fields(visit) == expected


def test_what_needs_no_answer_is_drawn_at_once_and_stays(asked: Visit) -> None:
    held: list[Route] = []
    asked.page.route("**/attention", lambda route: held.append(route))
    click(asked, "level", "word")
    asked.wait_until(lambda: len(held) == 1)
    asked.head(0, 5).click()
    asked.menu("View").get_by_label("Special tokens").uncheck()
    for answered in (False, True):
        if answered:
            with asked.redrawn():
                held[0].continue_()
        assert asked.part(".place").inner_text() == "Layer 0, head 5"
        expect(asked.menu("View").get_by_label("Special tokens")).not_to_be_checked()
        expect(asked.part("[name=level]")).to_have_value("word")
        unit = "word" if answered else "token"
        assert asked.part(".of-query option").first.inner_text() == f"any {unit}"
    assert len(held) == 1
    addressed(asked, {"head": ["5"], "layer": ["0"], "level": ["word"], "special": ["off"]})


def test_an_address_that_fails_leaves_the_name_over_the_numbers(asked: Visit) -> None:
    largest = asked.part(".largest").inner_text()
    refuse(asked, 503, "overloaded")
    asked.page.evaluate("location.hash = '#heads&level=word&layer=1'")
    asked.problem()
    asked.complained("503")
    assert asked.part(".place").inner_text() == "Layer 3, head 8"
    assert asked.part(".largest").inner_text() == largest
    expect(asked.menu("View").locator("[name=level]")).to_have_value("token")
    addressed(asked, {"layer": ["3"], "head": ["8"]})
    asked.page.unroute("**/attention")
    asked.try_again()
    assert asked.part(".place").inner_text().startswith("Layer 1, head ")
    expect(asked.page.locator("#view-note")).to_contain_text("Words: ")


def test_an_address_restores_the_view_without_the_text(asked: Visit, browser: Browser) -> None:
    asked.set("level", "word")
    asked.part(".cell button").nth(4).click()
    view = {"layer": ["0"], "head": ["4"], "level": ["word"]}
    addressed(asked, view)
    address = urlsplit(asked.page.url)
    assert address.query == ""
    with window(browser, asked.url) as other:
        other.open(f"#{address.fragment}")
        assert other.page.locator("#results").count() == 0
        other.ask("Another text altogether.")
        assert other.part(".place").inner_text() == "Layer 0, head 4"
        # A link may also hold a text, which is asked.
        with other.redrawn():
            other.page.evaluate("location.hash = '#heads&text=A+%26+b.&layer=2&head=1'")
        assert other.page.get_by_label("Text", exact=True).input_value() == "A & b."
        assert other.part(".place").inner_text() == "Layer 2, head 1"


def test_every_field_of_an_address_comes_back_and_nonsense_is_passed_over(asked: Visit) -> None:
    for fragment in (
        "model&layer=1&head=2",
        "model&layer=4&head=7&special=off",
        "model&layer=3&head=0&level=word",
    ):
        with asked.redrawn():
            asked.page.evaluate("fragment => { location.hash = fragment; }", fragment)
        addressed(asked, parse_qs(fragment.removeprefix("model&")))
    nonsense = "#layer=99&head=-1&reduce=mean&level=<b>&view=lines&special=maybe&whole=on&overlay="
    with asked.redrawn():
        asked.page.evaluate("fragment => { location.hash = fragment; }", nonsense)
    assert asked.part(".overview-title").inner_text() == "72 heads"
    asked.wait_until(lambda: fields(asked).keys() == {"layer", "head"})
    assert fields(asked).keys() == {"layer", "head"}


def version(visit: Visit) -> str:
    """Of the model whose answer is shown."""
    return visit.page.locator("#model").inner_text().split()[-1]


def places(visit: Visit) -> list[str]:
    names: list[str] = visit.part(".cell button").evaluate_all(
        "buttons => buttons.map(button => button.getAttribute('aria-label').split('.')[0])"
    )
    return names


@pytest.mark.parametrize("layers", [2, 8])
def test_another_model_is_asked_again_and_shown(asked: Visit, layers: int) -> None:
    new = Replaced(layers)
    new.stand_in(asked)
    asked.ask("A dull film.")
    assert version(asked) == new.version
    expected = [f"Layer {layer}, head {head}" for layer in range(layers) for head in range(12)]
    assert places(asked) == expected
    assert new.asked == [{"sentence": "A dull film."}] * 2
    assert asked.page.locator("#problem").count() == 0


def test_a_replacement_under_way_is_said_and_can_be_tried_again(asked: Visit) -> None:
    new = Replaced(4, is_asked=False)
    new.stand_in(asked)
    with asked.page.expect_request("**/model"):
        click(asked, "level", "word")
    assert CHANGED in asked.problem()
    assert len(new.asked) == 2
    assert asked.part(".overview-title").inner_text() == "72 heads"
    assert version(asked) != new.version
    new.is_asked = True
    asked.try_again()
    assert (version(asked), len(places(asked))) == (new.version, 48)
    expect(asked.menu("View").locator("[name=level]")).to_have_value("word")


def matter(visit: Visit, importance: list[float]) -> str:
    """The head that matters most, once those with the largest importance are named."""
    most = sorted(range(72), key=lambda at: -importance[at])[:2]
    chips = visit.part("#matter .chip")
    expect(chips).to_have_text([f"{at // 12}.{at % 12}" for at in most])
    return chips.first.inner_text()


def test_what_matters_is_found_by_switching_each_head_off(
    visit: Visit, client: httpx.Client
) -> None:
    asked = questions(visit)
    visit.ask(TEXT)
    assert asked == ["/attention"]
    visit.part(".find").click()
    visit.part(".grid.marked").wait_for()
    assert asked[1:] == ["/predict"] * 72
    titles = visit.part(".cell button").evaluate_all("all => all.map(({ title }) => title)")
    changes = [float(title.partition("Importance ")[2][:-1]) for title in titles]
    layer, head = matter(visit, changes).split(".")
    odds = []
    for mask in ([], [{"layer": int(layer), "head": int(head)}]):
        body = {"sentences": [TEXT], "head_mask": mask} if mask else {"sentences": [TEXT]}
        (prediction,) = client.post("/predict", json=body).json()["predictions"]
        share = prediction["probabilities"]["positive"]
        odds.append(math.log(share / (1 - share)))
    assert max(changes) == pytest.approx(abs(odds[0] - odds[1]), abs=1e-4)
    visit.part("#matter .chip").first.click()
    expect(visit.part(".place")).to_have_text(f"Layer {layer}, head {head}")


def test_heads_are_switched_off_and_on(visit: Visit) -> None:
    before = heard(visit, lambda: visit.ask(TEXT), path="attention")["prediction"]
    visit.choose(5, 3)

    def press() -> list[dict[str, int]]:
        answer = heard(visit, visit.part(".switch").click)
        masked: list[dict[str, int]] = answer["asked"]["head_mask"]
        (after,) = answer["predictions"]
        label = before["label"]
        assert after["label"] == label, "another model: choose a head that turns no verdict"
        from_, to = (percent(each["probabilities"][label]) for each in (before, after))
        assert from_ != to
        moved = f"{label} {from_} → {to}. The verdict holds."
        expect(visit.part(".outcome")).to_contain_text(moved)
        return masked

    assert press() == [{"layer": 5, "head": 3}]
    expect(visit.part(".outcome")).to_contain_text("Off: layer 5, head 3: ")
    expect(visit.page.locator("#status")).to_have_text(visit.part(".outcome").inner_text())
    off = visit.part(".cell .off")
    expect(off).to_have_count(1)
    name = off.get_attribute("aria-label") or ""
    assert name.startswith("Layer 5, head 3. ")
    assert name.endswith(" Switched off.")
    visit.choose(5, 2)
    assert press() == [{"layer": 5, "head": 3}, {"layer": 5, "head": 2}]
    visit.choose(5, 3)
    assert press() == [{"layer": 5, "head": 2}]
    visit.set("level", "word")
    expect(off).to_have_count(1)
    visit.part(".reset").click()
    expect(off).to_have_count(0)
    expect(visit.part(".outcome")).to_have_text("")
