"""Defines requests in the queue, their texts or jobs, and the batches that answer them."""

import asyncio
import logging
import math
import time
from collections.abc import Callable, Hashable, Sequence
from contextlib import AbstractContextManager, ExitStack
from dataclasses import dataclass, field
from enum import IntEnum
from functools import partial
from typing import Any, Generic, TypeVar

from model import Encoding
from model.predictor import PathName
from service.errors import INTERNAL_DETAIL, UNCOMPUTABLE_DETAIL, InternalError
from service.logs import safe_fault
from service.metrics import FUSED
from service.tracing.record import NOTHING, Trace

Result = TypeVar("Result")
logger = logging.getLogger("headlight.queue")

DRAINED = "The service is shutting down: send the request to another replica, or again later."


@dataclass(frozen=True, slots=True)
class ClientId:
    """Who asks, and for what.

    Args:
        client: the same for all requests that share one share of the service.
        route: requests of one route cost about the same.
        spend: counts the tokens of an admitted request; raises if they are too many.
        seconds: how long the request may take in all.
    """

    client: Hashable = None
    route: str = ""
    spend: Callable[[int], None] = lambda _: None
    seconds: float = math.inf


ANYONE = ClientId()


class Weight(IntEnum):
    """How long a request keeps a core busy."""

    LIGHT = 0
    HEAVY = 1
    GRADIENT = 2


@dataclass(frozen=True, slots=True)
class Job(Generic[Result]):
    """Other work for a worker, such as gradients.

    Args:
        run: returns an error for the request; raises one for an error of the pass.
        encodings: a text of equal length for each row through the network; none if it costs no
            tokens and is not counted as a pass.
    """

    run: Callable[[], Result | Exception]
    encodings: Sequence[Encoding] = ()


@dataclass(slots=True, eq=False)
class Request:
    """A request that waits for the results of its items.

    Args:
        future: is done with the last result, or with an error.
        missing: results that are still to come.
        finish: makes a result of an item's index and its result of the pass, on the worker. None:
            the result of the pass is it.
        cost: what a token costs, in tokens of a prediction.
        weight: how long it keeps a core busy.
        urgent_at: when it becomes urgent, by the monotonic clock.
        waiting_tokens: those of `tokens` that no worker has taken.
        queues: the items that no worker has taken; see `Schedule`.
        results: by item.
    """

    path: PathName
    caller: ClientId
    future: asyncio.Future[None]
    missing: int
    finish: Callable[[int, Any], object] | None = None
    trace: Trace | None = None
    tokens: int = 0
    cost: float = 1.0
    weight: Weight = Weight.LIGHT
    urgent_at: float = math.inf
    waiting_items: int = 0
    waiting_tokens: int = 0
    queues: "dict[Any, list[Item]]" = field(default_factory=dict)
    results: dict[int, Any] = field(default_factory=dict)

    def fail(self, error: Exception) -> None:
        """Answers with an error, unless there is an answer."""
        if not self.future.done():
            self.future.set_exception(error)


@dataclass(slots=True, eq=False)
class Item:
    """One text or job of a request, with a text in `encodings` for each row of its pass.

    The schedule sets `finish_time`, when it would end if all requests were served at once, and
    `number`, its order of arrival.
    """

    request: Request
    index: int
    input: object
    encodings: Sequence[Encoding]
    tokens: int = field(init=False)
    finish_time: float = 0.0
    number: int = 0

    def __post_init__(self) -> None:
        """Counts the tokens of all rows."""
        self.tokens = sum(len(encoding.input_ids) for encoding in self.encodings)

    def deliver(self, result: object) -> None:
        """Stores the result; an error is that of a prediction, or the answer to the request."""
        request = self.request
        if isinstance(result, InternalError) and request.path != FUSED:
            request.fail(result)
            return
        request.results[self.index] = result
        request.missing -= 1
        if not request.missing and not request.future.done():
            request.future.set_result(None)


@dataclass(slots=True, eq=False)
class Batch:
    """Items of one path and weight that go through the network together.

    `run` makes a result or an error of each input; `errors` holds those of single items.
    """

    items: Sequence[Item]
    run: Callable[[Sequence[Any]], Sequence[Any]]
    began: float = field(default_factory=time.monotonic)
    errors: list[Exception] = field(default_factory=list)

    @property
    def path(self) -> PathName:
        """The path through the network, as metrics name it."""
        return self.items[0].request.path

    @property
    def weight(self) -> Weight:
        """How long it keeps a core busy; the same for all items."""
        return self.items[0].request.weight

    @property
    def tokens(self) -> int:
        """Tokens of all items, without padding."""
        return sum(item.tokens for item in self.items)

    @property
    def work(self) -> float:
        """What it costs, in tokens of a prediction."""
        return sum(item.tokens * item.request.cost for item in self.items)

    @property
    def encodings(self) -> list[Encoding]:
        """The texts of all items, in order."""
        return [encoding for item in self.items for encoding in item.encodings]

    def compute(self, call_soon: Callable[[Callable[[], None]], object]) -> list[object]:
        """Runs the pass; returns a result for each item, to deliver on the event loop.

        An item that fails gets its error. Results with a `finish` are delivered one by one through
        `call_soon`, all but the last, so that a client need not wait for the others.

        Raises:
            Exception: the pass failed.
        """
        with self._noted():
            results = self.run([item.input for item in self.items])
        if len(results) != len(self.items):  # else those at the end would wait for ever
            raise RuntimeError(f"{len(self.items)} items got {len(results)} results")
        finished = []
        for item, result in zip(self.items, results, strict=True):
            finished.append(self._finish(item, result))
            if item.request.finish is not None and item is not self.items[-1]:
                call_soon(partial(item.deliver, finished[-1]))
        return finished

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
        stages = ExitStack()
        for trace in dict.fromkeys(traced):
            texts = {"headlight.texts": traced.count(trace)}
            stages.enter_context(trace.begin_pass(round(self.began * 1e9), {**described, **texts}))
        return stages

    def _finish(self, item: Item, result: object) -> object:
        if isinstance(result, Exception):
            self.errors.append(result)
            return failure(result, UNCOMPUTABLE_DETAIL)
        if item.request.finish is None:
            return result
        trace = item.request.trace
        try:
            with NOTHING if trace is None else trace.begin_work("write", 1):
                return item.request.finish(item.index, result)
        except Exception as error:  # the other items still get their results
            logger.exception("a result could not be finished", extra=safe_fault(error))
            # The frames of its traceback would keep the weights alive.
            self.errors.append(error.with_traceback(None))
            return failure(error)

    def deliver(self, results: Sequence[object]) -> None:
        """Delivers the results that are not delivered yet."""
        for item, result in zip(self.items, results, strict=True):
            if item.index not in item.request.results:
                item.deliver(result)

    def fail(self, error: Exception) -> None:
        """Answers with an error the requests of which an item has no result."""
        for item in self.items:
            if item.index not in item.request.results:
                item.request.fail(error)


def failure(error: BaseException, detail: str = INTERNAL_DETAIL) -> InternalError:
    """Makes the answer of an error, which becomes its cause."""
    answer = InternalError(detail)
    answer.__cause__ = error
    return answer
