"""One Chromium and one service with the default model for all tests of the page."""

import shutil
from collections.abc import Iterator

import httpx
import pytest
from playwright.sync_api import Browser, expect, sync_playwright

from tests.browser.visits import PATIENCE, Visit, window
from tests.commands import give_up
from tests.end_to_end import servers
from tests.end_to_end.servers import ROOT, RunningService, service

_NAMES = ("chromium", "chromium-browser", "google-chrome")
_OPTIONS = ("--no-sandbox", "--disable-gpu", "--disable-background-networking")


# Ends with this folder: while it lives, no other test could run an event loop of its own.
@pytest.fixture(scope="package")
def browser() -> Iterator[Browser]:
    paths = [path for path in map(shutil.which, _NAMES) if path]
    if not paths:
        give_up("no Chromium is installed: apt-get install chromium")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=paths[0], args=_OPTIONS)
        yield browser
        browser.close()


@pytest.fixture(scope="package")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningService]:
    """The default model."""
    # The page asks for exact numbers only where they take a part of this time.
    options = ("--request-timeout", "60")
    folder = tmp_path_factory.mktemp("page")
    with service(ROOT / "checkpoints" / "default", folder, *options) as server:
        yield server


@pytest.fixture(scope="module")
def shared(browser: Browser, running: RunningService) -> Iterator[Visit]:
    """One page for the tests of a module that do not mind what others have chosen there."""
    with window(browser, running.url) as visit:
        yield visit


keyed = servers.shared(scope="package", HEADLIGHT_API_KEYS="right")


@pytest.fixture
def visit_keyed(browser: Browser, keyed: RunningService) -> Iterator[Visit]:
    with window(browser, keyed.url) as visit:
        yield visit


@pytest.fixture(scope="package")
def client(running: RunningService) -> Iterator[httpx.Client]:
    with running.client() as client:
        yield client


@pytest.fixture
def visit(browser: Browser, running: RunningService) -> Iterator[Visit]:
    with window(browser, running.url) as visit:
        yield visit


def pytest_configure() -> None:
    """Gives every expectation the same patience."""
    expect.set_options(timeout=PATIENCE)
