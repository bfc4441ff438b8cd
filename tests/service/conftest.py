"""Runs tests that are coroutines, each on an event loop of its own."""

import asyncio
import inspect
from typing import Any

import pytest

SECONDS = 120.0  # far more than a test takes on a busy machine


@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> bool | None:
    """Runs a coroutine, on the event loop that the test is parametrized with, if any."""
    if not inspect.iscoroutinefunction(pyfuncitem.obj):
        return None
    given: dict[str, Any] = pyfuncitem.funcargs

    async def work() -> None:
        async with asyncio.timeout(SECONDS):
            await pyfuncitem.obj(
                **{name: given[name] for name in inspect.signature(pyfuncitem.obj).parameters}
            )

    with asyncio.Runner(loop_factory=given.get("event_loop_factory")) as runner:
        runner.run(work())
    return True
