"""The model is replaced while the page is open: no answer is shown that is of two."""

import pytest
from playwright.sync_api import Route, expect

from tests.browser.routes import Replaced
from tests.browser.visits import Visit

FIRST, SECOND = "A superb film.", "A dull film."
CHANGED = "The model is being replaced just now. Answers came from two versions of it."


@pytest.fixture
def asked(visit: Visit) -> Visit:
    """The page with an answer of the served model."""
    visit.ask(FIRST)
    return visit


def version(visit: Visit) -> str:
    """Of the model whose answer is shown."""
    return visit.page.locator("#model").inner_text().split()[-1]


def places(visit: Visit, panel: int = 0) -> list[str]:
    """All heads of the grid."""
    names: list[str] = visit.part(".cell button", panel).evaluate_all(
        "buttons => buttons.map(button => button.getAttribute('aria-label').split('.')[0])"
    )
    return names


@pytest.mark.parametrize("layers", [4, 8])
def test_other_layers_are_offered_and_shown(asked: Visit, layers: int) -> None:
    new = Replaced(layers)
    new.stand_in(asked)
    asked.ask(SECOND)

    assert version(asked) == new.version
    expected = [f"Layer {layer}, head {head}" for layer in range(layers) for head in range(12)]
    assert places(asked) == expected
    assert asked.page.locator("#some-layers input").count() == layers
    assert new.asked == [{"sentence": SECOND}] * 2
    assert asked.page.locator("#problem").is_hidden()


def test_a_smaller_model_refuses_a_layer_that_it_has_not(asked: Visit) -> None:
    asked.page.locator("#some summary").click()
    with asked.redrawn():
        asked.page.locator("#some-layers input[value='0']").uncheck()
    Replaced(4).stand_in(asked)
    asked.ask(SECOND)

    asked.complained("422")
    assert places(asked)[-1] == "Layer 3, head 11"
    assert asked.page.locator("#some-chosen").inner_text() == "layers 1, 2, 3"


def test_parts_of_two_models_are_not_joined(asked: Visit) -> None:
    # The first part is of the model that was served, the second one of the new model.
    new = Replaced(6, answers=lambda _, place: place >= 1)

    def with_a_limit(route: Route) -> None:
        answer = route.fetch().json()
        answer["limits"]["max_attention_weights"] = 3 * 12 * 48**2
        route.fulfill(json=answer | ({"version": new.version} if new.asked else {}))

    asked.page.route("**/model", with_a_limit)
    new.stand_in(asked, "attention")
    asked.page.goto("about:blank")  # a reload would ask the text of before again
    asked.open()
    asked.ask(SECOND)

    halves = [[0, 1, 2], [3, 4, 5]]
    assert [body.get("layer") for body in new.asked] == [*halves, *halves]
    assert version(asked) == new.version
    assert places(asked)[-1] == "Layer 5, head 11"


def test_two_sentences_are_read_by_one_model(asked: Visit) -> None:
    new = Replaced(4, answers=lambda sentence, place: sentence == SECOND or place >= 2)
    new.stand_in(asked)
    asked.ask(FIRST, SECOND)

    assert version(asked) == new.version
    assert [len(places(asked, panel)) for panel in (0, 1)] == [48, 48]


def test_a_replacement_under_way_is_shown_and_can_be_tried_again(asked: Visit) -> None:
    new = Replaced(4, is_asked=False)
    new.stand_in(asked)
    with asked.page.expect_request("**/model"):
        asked.page.locator("input[name=level][value=word]").click()

    assert CHANGED in asked.problem()
    assert len(new.asked) == 2
    assert asked.part(".overview-title").inner_text() == "72 heads"
    assert version(asked) != new.version

    new.is_asked = True
    with asked.redrawn():
        asked.page.get_by_role("button", name="Try again").click()
    assert (version(asked), len(places(asked))) == (new.version, 48)
    expect(asked.page.locator("input[name=level][value=word]")).to_be_checked()


def test_the_importance_of_another_model_marks_nothing(asked: Visit) -> None:
    new = Replaced(6)
    new.stand_in(asked, "importance")
    asked.page.get_by_label("Mark importance").click()

    assert CHANGED in asked.problem()
    assert asked.part(".grid.marked").count() == 0

    new.stand_in(asked)
    with asked.redrawn():
        asked.page.get_by_role("button", name="Try again").click()
    assert version(asked) == new.version
    asked.page.get_by_label("Mark importance").check()
    asked.part(".grid.marked").wait_for()


def test_an_answer_of_another_shape_is_not_drawn(asked: Visit) -> None:
    def cut(route: Route) -> None:
        answer = route.fetch().json()
        route.fulfill(json=answer | {"attention": answer["attention"][:4]})

    asked.page.route("**/attention", cut)
    asked.page.get_by_role("button", name="Analyse").click()

    assert "The answer has 4 where 6 were asked for." in asked.problem()
    assert version(asked) != ""
