"""The event loops that the service runs on."""

import asyncio
from collections.abc import Coroutine
from typing import Any

import pytest
import uvloop

from tests.service.connections import Run


@pytest.fixture(params=[uvloop.new_event_loop, asyncio.new_event_loop], ids=["uvloop", "asyncio"])
def run(request: pytest.FixtureRequest) -> Run:
    """Runs a test on one event loop and the other."""

    def run(work: Coroutine[Any, Any, None]) -> None:
        with asyncio.Runner(loop_factory=request.param) as runner:
            runner.run(work)

    return run
