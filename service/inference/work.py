"""Holds what waits for the network, and runs what goes through it together.

A pass is computed on a lane. Its results are handed out on the event loop.
"""

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Generic, TypeVar

from model import Encoding

Result = TypeVar("Result")


@dataclass(slots=True, eq=False)
class Waiter(Generic[Result]):
    """A request that waits for `missing` of its results.

    Args:
        future: answered with all of them in their order, or with an error.
        missing: how many are not there yet.
        results: those that are there.
    """

    future: asyncio.Future[list[Result]]
    missing: int
    results: dict[int, Result] = field(default_factory=dict)

    def deliver(self, index: int, result: Result) -> None:
        """Takes one result; the last one answers."""
        self.results[index] = result
        self.missing -= 1
        if not self.missing and not self.future.done():
            self.future.set_result([self.results[place] for place in range(len(self.results))])

    def fail(self, error: Exception) -> None:
        """Answers with an error; without effect if there is an answer."""
        if not self.future.done():
            self.future.set_exception(error)


@dataclass(frozen=True, slots=True)
class Job(Generic[Result]):
    """Other work for a lane, such as gradients.

    Args:
        run: called there.
        encodings: a text for each row that goes through the network in it, all of one length.
            Without any it costs nothing, and is no pass that is counted.
    """

    run: Callable[[], Result]
    encodings: Sequence[Encoding] = ()

    @property
    def tokens(self) -> int:
        """What it costs."""
        return sum(len(encoding.input_ids) for encoding in self.encodings)


@dataclass(frozen=True, slots=True, eq=False)
class Task:
    """A kind of pass.

    Args:
        path: through the network, as metrics name it.
        run: the pass over some items; a result for each, in their order.
    """

    path: str
    run: Callable[[Sequence[Any]], Sequence[Any]]


@dataclass(slots=True, eq=False)
class Entry:
    """One item of a request.

    Args:
        task: what it waits for.
        waiter: its request.
        index: its place there.
        item: what `task.run` takes.
        encodings: a text for each row that goes through the network.
        finish: makes of the index and the result what the request gets; called on the lane, so
            that it keeps nobody else waiting. None: the result is.
    """

    task: Task
    waiter: Waiter[Any]
    index: int
    item: object
    encodings: Sequence[Encoding]
    finish: Callable[[int, Any], object] | None = None

    @property
    def tokens(self) -> int:
        """What it costs."""
        return sum(len(encoding.input_ids) for encoding in self.encodings)


@dataclass(slots=True, eq=False)
class Pass:
    """What goes through the network together.

    Args:
        entries: at least one, all of one task.
    """

    entries: Sequence[Entry]
    unanswered: list[Entry] = field(init=False)

    def __post_init__(self) -> None:
        """Begins with all of them unanswered."""
        self.unanswered = list(self.entries)

    @property
    def path(self) -> str:
        """The path through the network, as metrics name it."""
        return self.entries[0].task.path

    @property
    def encodings(self) -> list[Encoding]:
        """The texts, in their order."""
        return [encoding for entry in self.entries for encoding in entry.encodings]

    def compute(self, call: Callable[[Callable[[], None]], object]) -> Callable[[], None]:
        """Runs the pass.

        Results that have to be finished are handed out one by one, so that the first is on its
        way, and maybe followed by the next request, while the others are still being made.

        Args:
            call: calls something on the event loop, soon.

        Returns:
            What hands out the rest of the results, on the event loop.

        Raises:
            Exception: the pass failed, or the first of the results that could not be finished;
                `fail` tells those who wait for them.
        """
        results = self.entries[0].task.run([entry.item for entry in self.entries])
        if self.entries[0].finish is None:
            return partial(self._deliver, results)
        return self._finish_each(results, call)

    def _finish_each(
        self, results: Sequence[Any], call: Callable[[Callable[[], None]], object]
    ) -> Callable[[], None]:
        self.unanswered = []
        failures: list[Exception] = []
        deliver: list[Callable[[], None]] = []
        for entry, result in zip(self.entries, results, strict=True):
            if deliver:
                call(deliver.pop())
            assert entry.finish is not None  # noqa: S101 - all of a task have one, or none has
            try:
                finished = entry.finish(entry.index, result)
            except Exception as error:  # the others of the pass are none the worse for it
                failures.append(error)
                self.unanswered.append(entry)
            else:
                deliver.append(partial(entry.waiter.deliver, entry.index, finished))
        if not failures:
            return deliver.pop()
        if deliver:
            call(deliver.pop())
        try:
            raise failures[0]
        finally:
            failures.clear()  # their tracebacks keep this frame, and that the weights

    def _deliver(self, results: Sequence[Any]) -> None:
        for entry, result in zip(self.entries, results, strict=True):
            entry.waiter.deliver(entry.index, result)

    def fail(self, error: Exception) -> None:
        """Tells those who will get no result."""
        for entry in self.unanswered:
            entry.waiter.fail(error)
