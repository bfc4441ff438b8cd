"""The engine, the image and the running stack, made once for all tests of this folder."""

from collections.abc import Iterator
from contextlib import ExitStack

import pytest

from tests.containers.engine import CommandError, Engine, running_engine
from tests.containers.stack import Stack, running_stack
from tests.containers.standin import can_stand_in, standin_engine

IMAGE = "headlight:under-test"


@pytest.fixture(scope="session")
def engine() -> Iterator[Engine]:
    """The engine of this machine; on a Debian without one, a stand-in."""
    running = running_engine()
    if running is not None:
        yield running
    elif can_stand_in():
        with standin_engine() as standin:
            yield standin
    else:
        pytest.fail(
            "no Docker engine answers to `docker info`: start or install one", pytrace=False
        )


@pytest.fixture(scope="session")
def image(engine: Engine) -> str:
    """The tag of the image, freshly built from the Dockerfile."""
    engine.docker("build", "--tag", IMAGE, ".")
    return IMAGE


@pytest.fixture(scope="session")
def stack(engine: Engine, image: str, request: pytest.FixtureRequest) -> Iterator[Stack]:
    """Everything in the compose file, up and healthy."""
    with ExitStack() as exits:
        try:
            stack = exits.enter_context(running_stack(engine, image))
        except CommandError as error:
            pytest.fail(str(error), pytrace=False)
        yield stack
        if request.session.testsfailed:
            _report(request.config, stack.engine.compose("logs", "--tail", "40"))


def _report(config: pytest.Config, text: str) -> None:
    terminal = config.pluginmanager.get_plugin("terminalreporter")
    assert isinstance(terminal, pytest.TerminalReporter)
    terminal.write_line(f"\n{text}")


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """One plain line that any reader of logs can count on."""
    counts = {
        name: len(terminalreporter.getreports(name)) for name in ("passed", "failed", "error")
    }
    failed = counts["failed"] + counts["error"]
    terminalreporter.write_line(f"{counts['passed']} passed, {failed} failed")
