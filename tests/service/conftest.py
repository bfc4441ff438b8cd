"""Runs tests that are coroutines, each on an event loop of its own; with sockets on uvloop."""

import asyncio
import inspect
from typing import Any

import pytest
import uvloop

SECONDS = 120.0  # far more than a test takes on a busy machine


@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> bool | None:
    """Runs a coroutine."""
    if not inspect.iscoroutinefunction(pyfuncitem.obj):
        return None
    given: dict[str, Any] = pyfuncitem.funcargs

    async def work() -> None:
        async with asyncio.timeout(SECONDS):
            await pyfuncitem.obj(
                **{name: given[name] for name in inspect.signature(pyfuncitem.obj).parameters}
            )

    with_sockets = "serving" in vars(pyfuncitem.module)
    with asyncio.Runner(loop_factory=uvloop.new_event_loop if with_sockets else None) as runner:
        runner.run(work())
    return True
