"""One Chromium and one service with the default model for all tests of the page."""

import os
import shutil
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest
from playwright.sync_api import Browser, expect, sync_playwright

from tests.browser.visits import PATIENCE, Visit, window
from tests.end_to_end.servers import ROOT, RunningService, service

SCREENSHOTS = ROOT / "build" / "screenshots"
_NAMES = ("chromium", "chromium-browser", "google-chrome")
_OPTIONS = ("--no-sandbox", "--disable-gpu", "--disable-background-networking")
FIGURES = pytest.StashKey[list[str]]()


# Ends with this folder: while it lives, no other test could run an event loop of its own.
@pytest.fixture(scope="package")
def browser() -> Iterator[Browser]:
    """The Chromium of this machine."""
    paths = [path for path in map(shutil.which, _NAMES) if path]
    if not paths:
        reason = "no Chromium is installed: apt-get install chromium"
        (pytest.fail if "CI" in os.environ else pytest.skip)(reason)
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=paths[0], args=_OPTIONS)
        yield browser
        browser.close()


@pytest.fixture(scope="package")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningService]:
    """The default model."""
    with service(ROOT / "checkpoints" / "default", tmp_path_factory.mktemp("page")) as server:
        yield server


@pytest.fixture(scope="package")
def client(running: RunningService) -> Iterator[httpx.Client]:
    """A client of that service, to compare the page with."""
    with running.client() as client:
        yield client


@pytest.fixture
def visit(browser: Browser, running: RunningService) -> Iterator[Visit]:
    """The page in a wide window."""
    with window(browser, running.url) as visit:
        yield visit


@pytest.fixture(scope="package")
def screenshots() -> Path:
    """Where pictures of the page go."""
    SCREENSHOTS.mkdir(parents=True, exist_ok=True)
    return SCREENSHOTS


def pytest_configure(config: pytest.Config) -> None:
    """Makes room for figures, and gives every expectation the same patience."""
    config.stash[FIGURES] = []
    expect.set_options(timeout=PATIENCE)


@pytest.fixture
def figures(request: pytest.FixtureRequest) -> list[str]:
    """Lines for the end of the run: what was measured and is not asserted."""
    return request.config.stash[FIGURES]


def pytest_terminal_summary(
    terminalreporter: pytest.TerminalReporter, config: pytest.Config
) -> None:
    """Prints the figures."""
    for figure in config.stash[FIGURES]:
        terminalreporter.write_line(figure)
