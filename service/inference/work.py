"""Runs passes over batches of entries and delivers their results.

A lane computes a pass. The event loop delivers its results.
"""

import asyncio
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Generic, TypeVar

from model import Encoding
from service.inference.lanes import LIGHT, Weight

Result = TypeVar("Result")


@dataclass(slots=True, eq=False)
class Waiter(Generic[Result]):
    """A request that waits for its results.

    Args:
        future: gets all results in order, or an error.
        missing: results that are still to come.
        client: who sent it.
        weight: how long its passes keep a core busy.
        cost: what a token of it costs, in tokens of a plain pass of its task.
        seconds: that a lane needs for a token of it, as estimated when it came.
        results: the others, by index.
    """

    future: asyncio.Future[list[Result]]
    missing: int
    client: Hashable = None
    weight: Weight = LIGHT
    cost: float = 1.0
    seconds: float = 0.0
    results: dict[int, Result] = field(default_factory=dict)

    def deliver(self, index: int, result: Result) -> None:
        """Stores one result; the last one completes the future."""
        self.results[index] = result
        self.missing -= 1
        if not self.missing and not self.future.done():
            self.future.set_result([self.results[place] for place in range(len(self.results))])

    def fail(self, error: Exception) -> None:
        """Answers with an error, unless there is an answer."""
        if not self.future.done():
            self.future.set_exception(error)


@dataclass(frozen=True, slots=True)
class Job(Generic[Result]):
    """Other work for a lane, such as gradients.

    Args:
        run: the work; called on the lane.
        encodings: a text for each row that goes through the network, all of one length. Without
            any, the job costs no tokens and is not counted as a pass.
    """

    run: Callable[[], Result]
    encodings: Sequence[Encoding] = ()

    @property
    def tokens(self) -> int:
        """Tokens of all rows."""
        return sum(len(encoding.input_ids) for encoding in self.encodings)


@dataclass(frozen=True, slots=True, eq=False)
class Task:
    """A kind of pass.

    Args:
        path: the path through the network, as metrics name it.
        run: runs a pass over items; returns a result for each, in order.
    """

    path: str
    run: Callable[[Sequence[Any]], Sequence[Any]]


@dataclass(slots=True, eq=False)
class Entry:
    """One item of a request.

    Args:
        task: the kind of pass that it waits for.
        waiter: its request.
        index: its index in the request.
        item: the input of `task.run`.
        encodings: a text for each row that goes through the network.
        finish: makes what the request gets from the index and the result. It runs on the lane, so
            that it does not block the event loop. None: the request gets the result itself.
    """

    task: Task
    waiter: Waiter[Any]
    index: int
    item: object
    encodings: Sequence[Encoding]
    finish: Callable[[int, Any], object] | None = None

    @property
    def tokens(self) -> int:
        """Tokens of all rows."""
        return sum(len(encoding.input_ids) for encoding in self.encodings)


@dataclass(slots=True, eq=False)
class Pass:
    """Entries that go through the network together.

    Args:
        entries: at least one, all of one task.
    """

    entries: Sequence[Entry]
    unanswered: list[Entry] = field(init=False)

    def __post_init__(self) -> None:
        """Marks all entries as unanswered."""
        self.unanswered = list(self.entries)

    @property
    def path(self) -> str:
        """The path through the network, as metrics name it."""
        return self.entries[0].task.path

    @property
    def weight(self) -> Weight:
        """How long it keeps a core busy; the same for all entries."""
        return self.entries[0].waiter.weight

    @property
    def tokens(self) -> int:
        """Tokens of all entries, without padding."""
        return sum(entry.tokens for entry in self.entries)

    @property
    def cost(self) -> float:
        """What it costs, in tokens of a plain pass of its task."""
        return sum(entry.tokens * entry.waiter.cost for entry in self.entries)

    @property
    def encodings(self) -> list[Encoding]:
        """The texts of all entries, in order."""
        return [encoding for entry in self.entries for encoding in entry.encodings]

    def compute(self, call_soon: Callable[[Callable[[], None]], object]) -> Callable[[], None]:
        """Runs the pass.

        Results with a `finish` are delivered one by one. So a client gets the first, and may send
        its next request, while the others are being finished.

        Args:
            call_soon: calls a function on the event loop.

        Returns:
            The function that delivers the remaining results, to call on the event loop.

        Raises:
            Exception: the pass failed, or a result could not be finished (the first such error).
                `fail` then answers the entries without a result.
        """
        results = self.entries[0].task.run([entry.item for entry in self.entries])
        if self.entries[0].finish is None:
            return partial(self._deliver, results)
        return self._finish_each(results, call_soon)

    def _finish_each(
        self, results: Sequence[Any], call_soon: Callable[[Callable[[], None]], object]
    ) -> Callable[[], None]:
        self.unanswered = []
        failures: list[Exception] = []
        deliver: list[Callable[[], None]] = []
        for entry, result in zip(self.entries, results, strict=True):
            if deliver:
                call_soon(deliver.pop())
            assert entry.finish is not None  # noqa: S101 - all entries of a task have one, or none
            try:
                finished = entry.finish(entry.index, result)
            except Exception as error:  # the other entries still get their results
                failures.append(error)
                self.unanswered.append(entry)
            else:
                deliver.append(partial(entry.waiter.deliver, entry.index, finished))
        if not failures:
            return deliver.pop()
        if deliver:
            call_soon(deliver.pop())
        try:
            raise failures[0]
        finally:
            failures.clear()  # their tracebacks hold this frame, which holds the weights

    def _deliver(self, results: Sequence[Any]) -> None:
        for entry, result in zip(self.entries, results, strict=True):
            entry.waiter.deliver(entry.index, result)

    def fail(self, error: Exception) -> None:
        """Answers the entries without a result with an error."""
        for entry in self.unanswered:
            entry.waiter.fail(error)
