"""axe finds nothing to complain about; pictures of what it looked at are kept."""

import importlib.resources
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser

from tests.browser.visits import NARROW, WIDE, Scheme, Visit, window
from tests.end_to_end.servers import RunningService

SENTENCE = "The plot drags, but the cast is superb."


def before(_: Visit) -> None:
    """Nothing was asked yet."""


def answered(visit: Visit) -> None:
    """A head and a token are chosen."""
    visit.ask(SENTENCE)
    visit.head(3, 8).click()
    visit.part(".strip button").nth(10).click()


def opened(visit: Visit) -> None:
    """All that can be opened is open."""
    answered(visit)
    visit.set("picture", "both")
    visit.page.locator("#some summary").click()
    visit.part(".table summary").click()


def compared(visit: Visit) -> None:
    """Two sentences."""
    visit.ask("The staff was friendly and quick.", "The staff was rude and quick.")
    visit.head(5, 3).click()
    visit.part(".strip button").nth(4).click()


def mean(visit: Visit) -> None:
    """A view, as a heat map by words."""
    visit.open("#reduce=mean&level=word&view=map&special=off")
    visit.page.reload()
    visit.ask(SENTENCE)


def failed(visit: Visit) -> None:
    """A problem is shown."""
    visit.page.get_by_label("Sentence", exact=True).fill(" ")
    visit.page.get_by_role("button", name="Show its heads").click()
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
    ("state", "width", "scheme"),
    [
        (before, WIDE, "light"),
        (answered, WIDE, "light"),
        (answered, WIDE, "dark"),
        (answered, NARROW, "light"),
        (opened, WIDE, "light"),
        (opened, NARROW, "dark"),
        (compared, WIDE, "dark"),
        (compared, 900, "light"),
        (mean, WIDE, "light"),
        (mean, NARROW, "dark"),
        (failed, NARROW, "dark"),
    ],
)
def test_axe_finds_nothing(
    browser: Browser,
    running: RunningService,
    screenshots: Path,
    state: Callable[[Visit], None],
    width: int,
    scheme: Scheme,
) -> None:
    with window(browser, running.url, width=width, scheme=scheme) as visit:
        state(visit)
        name = f"{state.__name__}-{scheme}-{width}.png"
        visit.page.screenshot(path=screenshots / name, full_page=True)

        assert violations(visit) == []
        overflow = visit.page.evaluate(
            "document.documentElement.scrollWidth - document.documentElement.clientWidth"
        )
        assert overflow == 0
