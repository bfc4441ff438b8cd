"""A second load of a page fetches no file."""

from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, BrowserContext, Page

from tests.browser.visits import PATIENCE
from tests.end_to_end.servers import RunningService

# What is there once all scripts of a page have run.
DRAWN = {"/": "#examples button", "/docs": ".opblock"}


@pytest.fixture
def context(browser: Browser) -> Iterator[BrowserContext]:
    """A browser that has visited nothing yet."""
    context = browser.new_context()
    context.set_default_timeout(PATIENCE)
    yield context
    context.close()


def load(page: Page, running: RunningService, path: str) -> None:
    """Opens a page and waits until its scripts have run."""
    page.goto(f"{running.url}{path}")
    page.locator(DRAWN[path]).first.wait_for()


def transferred(page: Page) -> dict[str, int]:
    """The bytes that came over the network for each script and style; 0 from the cache."""
    found: list[tuple[str, int]] = page.evaluate(
        """() => performance.getEntriesByType('resource')
          .filter(({ name }) => /\\.(js|css)$/.test(name))
          .map(({ name, transferSize }) => [name, transferSize])"""
    )
    return dict(found)


@pytest.mark.parametrize("path", DRAWN)
def test_a_second_load_fetches_no_file(
    context: BrowserContext, running: RunningService, path: str
) -> None:
    pages = context.new_page(), context.new_page()
    load(pages[0], running, path)
    load(pages[1], running, path)

    first, second = map(transferred, pages)
    assert len(first) >= 3
    assert all(size > 0 for size in first.values())
    assert second == dict.fromkeys(first, 0)
