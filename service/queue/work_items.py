"""Runs passes over batches on a worker, and delivers their results on the event loop."""

import asyncio
import logging
import time
from collections.abc import Callable, Hashable, Sequence
from contextlib import AbstractContextManager, ExitStack
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Generic, TypeVar

from model import Encoding
from model.predictor import PathName
from service.errors import INTERNAL_DETAIL, UNCOMPUTABLE_DETAIL, InternalError
from service.logs import safe_fault
from service.tracing.record import NOTHING, Trace, stage_of

Result = TypeVar("Result")
logger = logging.getLogger("headlight.work")


@dataclass(frozen=True, slots=True)
class Weight:
    """How long a request keeps a core busy: little, or as a piece of gradients."""

    light: bool
    gradient: bool = False


LIGHT = Weight(light=True)


@dataclass(slots=True, eq=False)
class PendingRequest(Generic[Result]):
    """A request that waits for its results, of which `missing` are still to come.

    Args:
        cost: cost of a token, in tokens of a plain pass of its task.
        predictions: the same in tokens of a prediction, as estimated when it came.
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
    """Other work for a worker, such as gradients.

    Args:
        run: returns an error for the request; raises one for a fault of the pass.
        encodings: a text of equal length for each row through the network; none if it costs no
            tokens and is not counted as a pass.
    """

    run: Callable[[], Result | Exception]
    encodings: Sequence[Encoding] = ()


@dataclass(frozen=True, slots=True, eq=False)
class Task:
    """A kind of pass; `run` returns a result or an error for each input, in order.

    With `by_item` a request gets the error of an item in its place, else as its answer.
    """

    path: PathName
    run: Callable[[Sequence[Any]], Sequence[Any]]
    by_item: bool = False


@dataclass(slots=True, eq=False)
class WorkItem:
    """One text or job of a request, with a text in `encodings` for each row of its pass.

    `finish` makes the answer from the index and the result, on the worker. None: the result is it.
    """

    task: Task
    request: PendingRequest[Any]
    index: int
    input: object
    encodings: Sequence[Encoding]
    finish: Callable[[int, Any], object] | None = None

    @property
    def tokens(self) -> int:
        """Tokens of all rows."""
        return sum(len(encoding.input_ids) for encoding in self.encodings)

    def deliver(self, result: object) -> None:
        """Answers with a result, or with an error in its place."""
        if isinstance(result, InternalError) and not self.task.by_item:
            self.request.fail(result)
        else:
            self.request.deliver(self.index, result)


@dataclass(slots=True, eq=False)
class ScheduledBatch:
    """Items of one task that go through the network together; the first are answered first."""

    items: Sequence[WorkItem]
    began: float = field(default_factory=time.monotonic)
    answered: int = field(init=False, default=0)
    faults: list[Exception] = field(init=False, default_factory=list)

    @property
    def path(self) -> PathName:
        """The path through the network, as metrics name it."""
        return self.items[0].task.path

    @property
    def weight(self) -> Weight:
        """How long it keeps a core busy; the same for all items."""
        return self.items[0].request.weight

    @property
    def tokens(self) -> int:
        """Tokens of all items, without padding."""
        return sum(item.tokens for item in self.items)

    @property
    def cost(self) -> float:
        """What it costs, in tokens of a plain pass of its task."""
        return sum(item.tokens * item.request.cost for item in self.items)

    @property
    def encodings(self) -> list[Encoding]:
        """The texts of all items, in order."""
        return [encoding for item in self.items for encoding in item.encodings]

    def compute(self, call_soon: Callable[[Callable[[], None]], object]) -> Callable[[], None]:
        """Runs the pass; returns what delivers its results, to call on the event loop.

        An item that fails gets its error. Results with a `finish` are delivered one by one through
        `call_soon`, so that a client need not wait for the others.

        Raises:
            Exception: the pass failed. `fail` then answers the items without a result.
        """
        with self._noted():
            results = self.items[0].task.run([item.input for item in self.items])
        if len(results) != len(self.items):  # else those at the end would wait for ever
            raise RuntimeError(f"{len(self.items)} items got {len(results)} results")
        if self.items[0].finish is None:
            checked = [self._check(result) for result in results]
            return partial(self._deliver, self.items, checked)
        return self._finish_each(results, call_soon)

    def _noted(self) -> AbstractContextManager[object]:
        """Notes the pass for each of its requests that is traced."""
        traced = [item.request.trace for item in self.items if item.request.trace is not None]
        if not traced:
            return NOTHING
        lengths = [len(encoding.input_ids) for encoding in self.encodings]
        described: dict[str, str | int] = {
            "headlight.path": self.path,
            "headlight.batch.requests": len({item.request for item in self.items}),
            "headlight.batch.texts": len(lengths),
            "headlight.batch.tokens": sum(lengths),
            "headlight.batch.padded_tokens": max(lengths, default=0) * len(lengths),
        }
        began = round(self.began * 1e9)
        stages = ExitStack()
        for trace in dict.fromkeys(traced):
            texts = {"headlight.texts": traced.count(trace)}
            stages.enter_context(trace.begin_pass(began, {**described, **texts}))
        return stages

    def _finish_each(
        self, results: Sequence[Any], call_soon: Callable[[Callable[[], None]], object]
    ) -> Callable[[], None]:
        for item, result in zip(self.items, results, strict=True):
            finished = self._finish(item, result)
            if item is self.items[-1]:
                break
            call_soon(partial(self._deliver, [item], [finished]))
        return partial(self._deliver, [item], [finished])

    def _finish(self, item: WorkItem, result: object) -> object:
        checked = self._check(result)
        if item.finish is None or isinstance(checked, InternalError):
            return checked
        try:
            with stage_of(item.request.trace, "write", 1):
                return item.finish(item.index, result)
        except Exception as error:  # the other items still get their results
            logger.exception("a result could not be finished", extra=safe_fault(error))
            # The frames of its traceback would keep the weights alive.
            return self._note(error.with_traceback(None), INTERNAL_DETAIL)

    def _check(self, result: object) -> object:
        return self._note(result, UNCOMPUTABLE_DETAIL) if isinstance(result, Exception) else result

    def _note(self, fault: Exception, detail: str) -> InternalError:
        self.faults.append(fault)
        return failure(fault, detail)

    def _deliver(self, items: Sequence[WorkItem], results: Sequence[object]) -> None:
        for item, result in zip(items, results, strict=True):
            self.answered += 1
            item.deliver(result)

    def fail(self, error: Exception) -> None:
        """Answers the items without a result with an error."""
        for item in self.items[self.answered :]:
            item.request.fail(error)


def failure(fault: BaseException, detail: str = INTERNAL_DETAIL) -> InternalError:
    """Makes the answer of a fault, which becomes its cause."""
    error = InternalError(detail)
    error.__cause__ = fault
    return error
