"""Work before admission: where it runs, whose turn it is, and what is dropped."""

import asyncio
import contextvars
import gc
import threading
import weakref
from collections.abc import Iterator

import pytest

from service.errors import DrainingError
from service.queue import preparing
from service.queue.preparing import INLINE_SECONDS, Preparer, Steps


class Clock:
    """Time that passes only where a test says so."""

    def __init__(self) -> None:
        self.now = 0.0

    def perf_counter(self) -> float:
        return self.now


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr(preparing, "time", clock)
    return clock


@pytest.fixture
def preparer() -> Iterator[Preparer]:
    preparer = Preparer(threads=1)
    yield preparer
    preparer.close()


def work(clock: Clock, seconds: float, *, steps: int = 1) -> Steps[list[bool]]:
    """Takes time in each step; returns for each whether it ran on the event loop."""
    inline = []
    for _ in range(steps):
        clock.now += seconds
        inline.append(threading.current_thread() is threading.main_thread())
        yield
    return inline


def test_only_the_first_millisecond_keeps_the_event_loop(clock: Clock, preparer: Preparer) -> None:
    steps = work(clock, INLINE_SECONDS * 0.4, steps=5)
    assert asyncio.run(preparer.run("a", steps)) == [True, True, True, False, False]


def test_work_that_is_not_short_never_keeps_the_event_loop(
    clock: Clock, preparer: Preparer
) -> None:
    assert asyncio.run(preparer.run("a", work(clock, 0.0), inline=False)) == [False]
    assert asyncio.run(preparer.call("a", threading.current_thread)) != threading.main_thread()


@pytest.mark.parametrize("inline", [True, False])
def test_an_error_reaches_who_waits(inline: bool, preparer: Preparer) -> None:
    def fail() -> Steps[None]:
        yield
        raise KeyError("b")

    with pytest.raises(KeyError, match="b"):
        asyncio.run(preparer.run("a", fail(), inline=inline))


async def test_clients_share_the_thread_by_the_time_that_they_use(
    clock: Clock, preparer: Preparer
) -> None:
    turns: list[str] = []
    ready = threading.Event()

    def use(client: str, seconds: float, steps: int) -> Steps[None]:
        ready.wait()
        for _ in range(steps):
            turns.append(client)
            clock.now += seconds
            yield

    greedy = [preparer.run("greedy", use("greedy", 0.03, 2), inline=False) for _ in range(4)]
    waiting = [asyncio.ensure_future(each) for each in greedy]
    await asyncio.sleep(0)
    waiting += [
        asyncio.ensure_future(preparer.run(name, use(name, 0.01, 3), inline=False))
        for name in ("b", "c")
    ]
    await asyncio.sleep(0)
    ready.set()
    await asyncio.gather(*waiting)
    # Each of the others has used as much as the greedy one by then.
    assert sorted(turns[1:7]) == ["b", "b", "b", "c", "c", "c"]
    assert turns[:1] + turns[7:] == ["greedy"] * 8


async def test_a_client_that_was_idle_has_saved_no_time(clock: Clock, preparer: Preparer) -> None:
    turns: list[str] = []
    reached, ready = threading.Event(), threading.Event()

    def use(client: str, steps: int) -> Steps[None]:
        for _ in range(steps):
            turns.append(client)
            clock.now += 0.01
            yield

    def last() -> Steps[None]:
        yield from use("a", 20)
        reached.set()
        ready.wait()
        yield from use("a", 4)

    first = asyncio.ensure_future(preparer.run("a", last(), inline=False))
    await asyncio.to_thread(reached.wait)
    other = asyncio.ensure_future(preparer.run("b", use("b", 4), inline=False))
    await asyncio.sleep(0)
    ready.set()
    await asyncio.gather(first, other)
    assert turns[20:].index("a", 1) < 4  # `b` has not all turns first
    assert turns[20:].index("b") < 4


async def test_nothing_more_is_done_for_who_has_left(preparer: Preparer) -> None:
    began, left = threading.Event(), threading.Event()
    done: list[str] = []

    def steps(name: str) -> Steps[None]:
        try:
            for _ in range(100):
                done.append(name)
                began.set()
                left.wait()
                yield
        finally:
            done.append(f"{name} closed")

    tasks = [asyncio.ensure_future(preparer.run(name, steps(name), inline=False)) for name in "ab"]
    assert await asyncio.to_thread(began.wait, 20)  # the other waits
    for task in tasks:
        task.cancel()
    await asyncio.wait(tasks)
    left.set()
    assert await preparer.call("c", lambda: "served") == "served"
    preparer.close()
    assert done == ["a", "a closed"]


async def test_an_error_that_nobody_waits_for_keeps_nothing_alive(preparer: Preparer) -> None:
    began, left = threading.Event(), threading.Event()
    bodies: list[weakref.ref[set[int]]] = []

    def steps() -> Steps[None]:
        body = {1}
        bodies.append(weakref.ref(body))
        began.set()
        left.wait()
        error = ValueError()
        raise error
        yield

    task = asyncio.ensure_future(preparer.run("a", steps(), inline=False))
    assert await asyncio.to_thread(began.wait, 20)
    gc.disable()
    try:
        task.cancel()
        await asyncio.wait([task])
        left.set()
        await preparer.call("b", lambda: None)  # the thread has ended the other by then
        assert bodies[0]() is None
    finally:
        gc.enable()
    preparer.close()


async def test_closing_answers_who_waits_and_who_has_begun(preparer: Preparer) -> None:
    began, goes_on = threading.Event(), threading.Event()

    def endless() -> Steps[None]:
        while True:
            began.set()
            goes_on.wait()
            yield

    work = [preparer.run("a", endless(), inline=False), preparer.call("b", lambda: None)]
    tasks = [asyncio.ensure_future(each) for each in work]
    assert await asyncio.to_thread(began.wait, 20)
    preparer.close()
    with pytest.raises(DrainingError):
        await tasks[1]
    goes_on.set()
    for late in (tasks[0], preparer.call("c", lambda: None)):
        with pytest.raises(DrainingError, match="shutting down"):
            await late


async def test_many_clients_are_not_remembered_for_ever(
    clock: Clock, preparer: Preparer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(preparing, "_MOST_CLIENTS", 3)
    gate = threading.Event()
    busy = asyncio.ensure_future(preparer.call("busy", gate.wait))
    await asyncio.sleep(0)
    for number in range(9):
        await preparer.run(number, work(clock, 0.0001))
    assert len(preparer._used) == 3
    gate.set()
    await busy


async def test_the_context_of_the_request_goes_along(preparer: Preparer) -> None:
    name = contextvars.ContextVar("name", default="none")
    name.set("mine")
    assert await preparer.call("a", name.get) == "mine"
