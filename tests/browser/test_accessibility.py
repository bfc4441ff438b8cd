"""axe finds nothing to complain about in any state of the page, wide or narrow, light or dark."""

import importlib.resources
from collections.abc import Callable
from typing import Any

import pytest
from playwright.sync_api import expect

from tests.browser.table_of_many import Many
from tests.browser.visits import NARROW, Visit, come, read

SENTENCE = "The plot drags, but the cast is superb."


def answered(visit: Visit) -> None:
    """A head and a token are chosen."""
    visit.ask(SENTENCE)
    visit.head(3, 8).click()
    visit.part(".of-query").select_option("10")


def opened(visit: Visit) -> None:
    """All that can be opened is open."""
    answered(visit)
    visit.part(".table summary").click()
    visit.part(".switch").click()
    expect(visit.part(".outcome")).to_contain_text("Off: layer 3, head 8: ")
    visit.part(".find").click()
    visit.part(".grid.marked").wait_for()
    visit.page.locator("#how summary").click()
    visit.menu("Save")
    visit.menu("View")


def made(visit: Visit) -> None:
    """How a weight was made, with all numbers."""
    answered(visit)
    visit.part(".how-made").click()
    expect(visit.part(".making > li")).to_have_count(5)
    for summary in visit.part(".making summary").all():
        summary.click()


def many(visit: Visit) -> None:
    """Many sentences, sorted, one of them bad."""
    section = Many(visit)
    texts = [SENTENCE, "A superb film.", "A film of " + "many words and " * 60, "Unbroken" * 40] * 5
    lines = "".join(f'"{text}",5,{at % 2}\n' for at, text in enumerate(texts))
    section.choose("reviews.csv", f"review,stars,product\n{lines}x\n")
    section.change()
    assert violations(visit) == []
    section.score("Done: 20 of 21 rows scored, 1 unreadable.")
    section.part("th").get_by_role("button", name="Label").click()


def tried_text(visit: Visit) -> None:
    """A sentence is opened, and all doors are."""
    read(visit, "The plot drags, and is a chore. But the cast is superb! " * 8)
    visit.page.locator("#answer .passage button").nth(1).click()
    visit.page.locator("#answer .trial summary").click()
    visit.page.get_by_role("button", name="Read the change").click()
    visit.page.get_by_role("button", name="JSON").click()
    visit.page.locator("#about summary").click()
    expect(visit.page.locator("#answer .outcome")).to_contain_text("The verdict holds.")


def foreign(visit: Visit) -> None:
    """A text that is half in another script."""
    read(visit, "The room was fine, but الخدمة كانت سيئة جدا ولن أعود إلى هنا")
    expect(visit.page.locator("#answer .warning")).to_contain_text("not all English")
    expect(visit.page.locator("#answer .reliable")).to_have_count(0)
    with visit.redrawn():
        visit.page.get_by_role("link", name="Inside the model", exact=True).click()
    expect(visit.part(".warning")).to_contain_text("not all English")


def cut(visit: Visit) -> None:
    """A view by words, of the beginning of a text of many sentences."""
    visit.open("#level=word&special=off")
    visit.ask("The plot drags, but the cast is superb. We waited an hour for cold soup. " * 32)
    expect(visit.part(".cut")).to_contain_text("this is about its first 512 tokens.")


def failed(visit: Visit) -> None:
    """A problem is shown."""
    visit.page.get_by_label("Text", exact=True).fill(" ")
    visit.page.get_by_role("button", name="Read it", exact=True).click()
    visit.problem()


def violations(visit: Visit) -> list[dict[str, Any]]:
    """What axe finds, in short."""
    source = importlib.resources.files("axe_playwright_python") / "axe.min.js"
    visit.page.evaluate(source.read_text(encoding="utf-8"))
    found: list[dict[str, Any]] = visit.page.evaluate(
        """async () => {
          const { violations } = await axe.run(document, {
            rules: { 'target-size': { enabled: true } },
          });
          return violations.map(({ id, help, nodes }) => ({
            id, help, nodes: nodes.map(({ html, any }) => [html, any.map((one) => one.message)]),
          }));
        }"""
    )
    return found


@pytest.mark.parametrize(
    "state",
    [
        *(lambda _: None, come, opened, cut),
        *(made, many, failed, tried_text, foreign),
    ],
)
def test_axe_finds_nothing_and_nothing_is_too_wide(
    visit: Visit, state: Callable[[Visit], None]
) -> None:
    state(visit)
    assert violations(visit) == []
    assert visit.overflow() == 0
    visit.page.set_viewport_size({"width": NARROW, "height": 900})
    visit.page.emulate_media(color_scheme="dark")
    assert violations(visit) == []
    assert visit.overflow() == 0
