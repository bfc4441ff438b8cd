"""Runs passes over batches of entries and delivers their results.

A lane computes a pass. The event loop delivers its results.
"""

import asyncio
import logging
import time
from collections.abc import Callable, Hashable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Generic, TypeVar

from model import Encoding
from model.predictor import PathName
from service.errors import INTERNAL_DETAIL, UNCOMPUTABLE_DETAIL, InternalError
from service.inference.workers import LIGHT, Weight
from service.logs import safe_fault
from service.tracing.record import NOTHING, Together, Trace, stage_of

Result = TypeVar("Result")
logger = logging.getLogger("headlight.work")


@dataclass(slots=True, eq=False)
class PendingRequest(Generic[Result]):
    """A request that waits for its results.

    Args:
        future: gets all results in order, or an error.
        missing: results that are still to come.
        client: who sent it.
        weight: how long its passes keep a core busy.
        cost: what a token of it costs, in tokens of a plain pass of its task.
        predictions: the same in tokens of a prediction, as estimated when it came.
        trace: notes its wait and its passes; None if it is not traced.
        results: the others, by index.
    """

    future: asyncio.Future[list[Result]]
    missing: int
    client: Hashable = None
    weight: Weight = LIGHT
    cost: float = 1.0
    predictions: float = 1.0
    trace: Trace | None = None
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
        run: the work; called on the lane. It may return an error, which is the request's own; an
            error that it raises is a fault of the pass.
        encodings: a text for each row that goes through the network, all of one length. Without
            any, the job costs no tokens and is not counted as a pass.
    """

    run: Callable[[], Result | Exception]
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
        run: runs a pass over items; returns a result for each, in order, or the error of an item.
        by_item: whether a request gets the error of an item in its place, beside the results of
            the others. If not, the error is the answer to the request.
    """

    path: PathName
    run: Callable[[Sequence[Any]], Sequence[Any]]
    by_item: bool = False


@dataclass(slots=True, eq=False)
class WorkItem:
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
    waiter: PendingRequest[Any]
    index: int
    item: object
    encodings: Sequence[Encoding]
    finish: Callable[[int, Any], object] | None = None

    @property
    def tokens(self) -> int:
        """Tokens of all rows."""
        return sum(len(encoding.input_ids) for encoding in self.encodings)

    def deliver(self, result: object) -> None:
        """Answers with a result, or with an error in its place."""
        if isinstance(result, InternalError) and not self.task.by_item:
            self.waiter.fail(result)
        else:
            self.waiter.deliver(self.index, result)


@dataclass(slots=True, eq=False)
class ScheduledBatch:
    """Entries that go through the network together.

    Args:
        entries: at least one, all of one task.
        began: when a lane took them, by the monotonic clock.
        answered: how many entries have their answer; the first ones get theirs first.
        faults: errors of single entries.
    """

    entries: Sequence[WorkItem]
    began: float = field(default_factory=time.monotonic)
    answered: int = field(init=False, default=0)
    faults: list[Exception] = field(init=False, default_factory=list)

    @property
    def path(self) -> PathName:
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

        An entry that fails gets its error and leaves the others alone.

        Args:
            call_soon: calls a function on the event loop.

        Returns:
            The function that delivers the remaining results, to call on the event loop.

        Raises:
            Exception: the pass failed. `fail` then answers the entries without a result.
        """
        with self._noted():
            results = self.entries[0].task.run([entry.item for entry in self.entries])
        if len(results) != len(self.entries):  # else those at the end would wait for ever
            raise RuntimeError(f"{len(self.entries)} entries got {len(results)} results")
        if self.entries[0].finish is None:
            checked = [self._check(result) for result in results]
            return partial(self._deliver, self.entries, checked)
        return self._finish_each(results, call_soon)

    def _noted(self) -> AbstractContextManager[object]:
        """Notes the pass for each of its requests that is traced."""
        traced = [entry.waiter.trace for entry in self.entries if entry.waiter.trace is not None]
        if not traced:
            return NOTHING
        lengths = [len(encoding.input_ids) for encoding in self.encodings]
        described: dict[str, str | int] = {
            "headlight.path": self.path,
            "headlight.batch.requests": len({entry.waiter for entry in self.entries}),
            "headlight.batch.texts": len(lengths),
            "headlight.batch.tokens": sum(lengths),
            "headlight.batch.padded_tokens": max(lengths, default=0) * len(lengths),
        }
        began = round(self.began * 1e9)
        return Together(
            trace.begin_pass(began, {**described, "headlight.texts": traced.count(trace)})
            for trace in dict.fromkeys(traced)
        )

    def _finish_each(
        self, results: Sequence[Any], call_soon: Callable[[Callable[[], None]], object]
    ) -> Callable[[], None]:
        for entry, result in zip(self.entries, results, strict=True):
            finished = self._finish(entry, result)
            if entry is self.entries[-1]:
                break
            call_soon(partial(self._deliver, [entry], [finished]))
        return partial(self._deliver, [entry], [finished])

    def _finish(self, entry: WorkItem, result: object) -> object:
        checked = self._check(result)
        if entry.finish is None or isinstance(checked, InternalError):
            return checked
        try:
            with stage_of(entry.waiter.trace, "write", 1):
                return entry.finish(entry.index, result)
        except Exception as error:  # the other entries still get their results
            logger.exception("a result could not be finished", extra=safe_fault(error))
            # The frames of its traceback would keep the weights alive.
            return self._note(error.with_traceback(None), INTERNAL_DETAIL)

    def _check(self, result: object) -> object:
        return self._note(result, UNCOMPUTABLE_DETAIL) if isinstance(result, Exception) else result

    def _note(self, fault: Exception, detail: str) -> InternalError:
        self.faults.append(fault)
        return failure(fault, detail)

    def _deliver(self, entries: Sequence[WorkItem], results: Sequence[object]) -> None:
        for entry, result in zip(entries, results, strict=True):
            self.answered += 1
            entry.deliver(result)

    def fail(self, error: Exception) -> None:
        """Answers the entries without a result with an error."""
        for entry in self.entries[self.answered :]:
            entry.waiter.fail(error)


def failure(fault: BaseException, detail: str = INTERNAL_DETAIL) -> InternalError:
    """Makes the answer of a fault, which becomes its cause."""
    error = InternalError(detail)
    error.__cause__ = fault
    return error
