"""What the user changes while an answer is on its way stays, whatever comes first."""

from urllib.parse import parse_qs, urlsplit

import pytest
from playwright.sync_api import expect

from tests.browser.routes import hold, refuse
from tests.browser.visits import Visit

SENTENCE = "The plot drags, but the cast is superb."


@pytest.fixture
def asked(visit: Visit) -> Visit:
    """The page with an answer and a head chosen."""
    visit.ask(SENTENCE)
    visit.head(3, 8).click()
    return visit


def click(visit: Visit, name: str, value: str) -> None:
    """Chooses a view without waiting for it."""
    visit.page.locator(f"#controls input[name={name}][value={value}]").click()


def link(visit: Visit) -> dict[str, list[str]]:
    """The fields of the link."""
    return parse_qs(urlsplit(visit.page.get_by_label("Link", exact=True).input_value()).fragment)


def test_what_needs_no_answer_is_drawn_at_once_and_stays(asked: Visit) -> None:
    held = hold(asked)
    click(asked, "level", "word")
    answer = held.wait_for(1)
    asked.head(0, 5).click()
    click(asked, "picture", "map")
    asked.page.get_by_label("Special tokens").uncheck()
    for answered in (False, True):
        if answered:
            with asked.redrawn():
                answer.continue_()
        assert asked.part(".place").inner_text() == "Layer 0, head 5"
        assert asked.part(".map canvas").is_visible()
        assert asked.part(".lines canvas").is_hidden()
        expect(asked.page.get_by_label("Special tokens")).not_to_be_checked()
        expect(asked.page.locator("input[name=level][value=word]")).to_be_checked()
        unit = "Words" if answered else "Tokens"
        assert (asked.part(".strip").get_attribute("aria-label") or "").startswith(unit)
        assert link(asked) == {
            "head": ["5"], "layer": ["0"], "level": ["word"], "special": ["off"], "view": ["map"],
        }  # fmt: skip


def test_a_view_of_the_sentence_that_is_on_its_way(asked: Visit) -> None:
    held = hold(asked)
    asked.page.get_by_label("Text", exact=True).fill("A second one.")
    asked.page.get_by_role("button", name="Analyse").click()
    held.wait_for(1)
    click(asked, "reduce", "max")
    answer = held.wait_for(2)
    assert held.bodies()[1] == {"sentence": "A second one.", "reduce": "max"}
    with asked.redrawn():
        answer.continue_()

    assert asked.part(".strip button").all_inner_texts()[1:4] == ["a", "second", "one"]
    assert asked.part(".place").inner_text() == "Layer 3, largest of heads 0 to 11"


def test_a_link_that_fails_leaves_the_name_over_the_numbers(asked: Visit) -> None:
    asked.set("reduce", "mean")
    largest = asked.part(".largest").inner_text()
    refuse(asked, 503, "overloaded")
    asked.page.evaluate("location.hash = '#reduce=max&layer=1&view=both'")
    asked.problem()
    asked.complained("503")

    def is_as_before() -> None:
        assert asked.part(".place").inner_text() == "Layer 3, mean of heads 0 to 11"
        assert asked.part(".largest").inner_text() == largest
        expect(asked.page.locator("input[name=reduce][value=mean]")).to_be_checked()
        assert asked.page.locator("#view-note").inner_text().startswith("Mean:")

    is_as_before()
    assert link(asked) == {"layer": ["3"], "head": ["8"], "reduce": ["mean"]}
    expect(asked.page).to_have_url(asked.page.get_by_label("Link", exact=True).input_value())
    asked.set("picture", "map")
    is_as_before()

    asked.page.unroute("**/attention")
    with asked.redrawn():
        asked.page.get_by_role("button", name="Try again").click()
    assert asked.part(".place").inner_text() == "Layer 1, largest of heads 0 to 11"
    expect(asked.page.locator("input[name=picture][value=both]")).to_be_checked()
