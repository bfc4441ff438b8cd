"""The event loops that the service runs on."""

import asyncio
import inspect

import pytest
import uvloop


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Runs each test over sockets on one event loop and the other."""
    if inspect.iscoroutinefunction(metafunc.function) and "serving" in metafunc.module.__dict__:
        metafunc.fixturenames.append("event_loop_factory")
        metafunc.parametrize(
            "event_loop_factory",
            [uvloop.new_event_loop, asyncio.new_event_loop],
            ids=["uvloop", "asyncio"],
        )
