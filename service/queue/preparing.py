"""Runs the work before admission in short steps, and shares its threads fairly among clients.

Parsing, splitting and tokenizing take processor time that no queue counts. Such work is a generator
that yields after each step. The first millisecond runs on the event loop, the rest on threads:
always that of the client that has used the least time (start-time fair queueing, Goyal et al.,
1996). Between two steps, work that nobody waits for any more is dropped.
"""

import asyncio
import contextvars
import threading
import time
from collections import deque
from collections.abc import Callable, Generator, Hashable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeVar

from model.backends.threads import yield_to_others
from service.errors import DrainingError, without_frames
from service.queue.scheduler import DRAINED

Result = TypeVar("Result")
Steps = Generator[None, None, Result]

#: How long a request may keep the event loop.
INLINE_SECONDS = 0.001
# How long a thread works for one client at a time.
_TURN_SECONDS = 0.002
# Threads yield to the passes of small requests.
_NICENESS = 15
# Clients whose use is remembered while others wait.
_MOST_CLIENTS = 10_000


@dataclass(slots=True, eq=False)
class _Task:
    """Work that waits for a thread; the future of a request that has ended is done."""

    client: Hashable
    steps: Steps[Any]
    future: asyncio.Future[Any]
    context: contextvars.Context

    def advance(self) -> Callable[[], None] | None:
        """Works for one turn; returns what delivers the result, or None if more is left."""
        began = time.perf_counter()
        try:
            while not self.future.done():
                next(self.steps)
                if time.perf_counter() - began > _TURN_SECONDS:
                    return None
            self.steps.close()
        except StopIteration as end:
            return partial(self.settle, end.value)
        except BaseException as error:  # the request must get it, a panic of Rust code too
            return partial(self.settle, None, error)
        return lambda: None

    def settle(self, result: object, error: BaseException | None = None) -> None:
        """Answers who waits, if anybody does."""
        if self.future.done():
            if error is not None:
                without_frames(error)
        elif error is None:
            self.future.set_result(result)
        else:
            self.future.set_exception(error)

    def drain(self) -> None:
        """Answers that the process ends."""
        self.settle(None, DrainingError(DRAINED, retry_after=1))


class Preparer:
    """The threads, and the work that waits for them."""

    def __init__(self, threads: int = 1) -> None:
        self._count = threads
        self._threads = ThreadPoolExecutor(
            threads, "prepare", initializer=yield_to_others, initargs=(_NICENESS,)
        )
        self._lock = threading.Lock()  # guards what follows
        self._waiting: dict[Hashable, deque[_Task]] = {}
        # Seconds of each client. One that comes in begins with those of the client served last.
        self._used: dict[Hashable, float] = {}
        self._served = 0.0
        self._busy = 0
        self._closed = False

    async def run(self, client: Hashable, steps: Steps[Result], *, inline: bool = True) -> Result:
        """Runs work to its end and returns its result.

        Args:
            client: whose time it takes.
            steps: the work; each step is short, or lets other threads run.
            inline: whether the first step is short enough for the event loop.

        Raises:
            DrainingError: the process ends.
            Exception: whatever the work raises.
        """
        if inline and client not in self._waiting:
            began = now = time.perf_counter()
            try:
                while now - began < INLINE_SECONDS:
                    next(steps)
                    now = time.perf_counter()
            except StopIteration as end:
                result: Result = end.value
                return result
            finally:
                with self._lock:
                    self._charge(client, time.perf_counter() - began)
        future = asyncio.get_running_loop().create_future()
        task = _Task(client, steps, future, contextvars.copy_context())
        with self._lock:
            if self._closed:
                raise DrainingError(DRAINED, retry_after=1)
            self._waiting.setdefault(client, deque()).append(task)
            if self._busy < self._count:
                self._busy += 1
                self._threads.submit(self._work)
        outcome: Result = await task.future
        return outcome

    async def call(self, client: Hashable, work: Callable[[], Result]) -> Result:
        """Runs a function on a thread, as one step; see `run`."""
        return await self.run(client, one_step(work), inline=False)

    def close(self) -> None:
        """Answers all who wait, on their event loop; threads end with the step they are at."""
        with self._lock:
            self._closed = True
            waiting = [task for tasks in self._waiting.values() for task in tasks]
            self._waiting.clear()
        for task in waiting:
            task.drain()
        self._threads.shutdown(wait=False)

    def _work(self) -> None:
        while (task := self._next()) is not None:
            began = time.perf_counter()
            deliver = task.context.run(task.advance)
            with self._lock:
                self._charge(task.client, time.perf_counter() - began)
                if deliver is None and self._closed:
                    deliver = task.drain
                elif deliver is None:
                    self._waiting.setdefault(task.client, deque()).appendleft(task)
            if deliver is not None:
                # A thread may outlive the event loop that woke it.
                task.future.get_loop().call_soon_threadsafe(deliver)

    def _next(self) -> _Task | None:
        """Takes the oldest work of the client that has used the least; None without any."""
        with self._lock:
            if not self._waiting:
                self._busy -= 1
                if not self._busy:
                    self._used.clear()
                    self._served = 0.0
                return None
            client = min(self._waiting, key=self._used_by)
            self._served = self._used_by(client)
            tasks = self._waiting[client]
            task = tasks.popleft()
            if not tasks:
                del self._waiting[client]
            return task

    def _used_by(self, client: Hashable) -> float:
        return max(self._used.get(client, 0.0), self._served)

    def _charge(self, client: Hashable, seconds: float) -> None:
        if not self._busy:
            return  # nobody had to wait
        used = self._used_by(client) + seconds
        self._used.pop(client, None)
        self._used[client] = used  # the client charged last is last
        if len(self._used) > _MOST_CLIENTS:
            del self._used[next(iter(self._used))]


def one_step(work: Callable[[], Result]) -> Steps[Result]:
    """Makes one step of a function."""
    yield
    return work()
