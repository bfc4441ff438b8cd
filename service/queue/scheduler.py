"""Defines requests and batches, and decides which texts go through the network next.

- Texts of similar length share a batch, so that little of it is padding. Where a device makes few
  shapes of passes, padding costs little and passes much: a batch takes the texts of any length that
  go first, as long as it has room.
- Clients share the network by weighted fair queueing (Demers, Keshav and Shenker 1989). The
  requests of one client share the weight of one. The virtual finish time of a text is when it would
  end if the network served all requests at once, in proportion to their weights. The text with the
  earliest one goes first. So a request of hundreds of texts does not hold up a single text, a
  hundred requests of one client count as one, and a stream of short texts does not starve a long
  one.
- Within a request, and at equal finish times, the older text goes first.
- Urgent texts go before all others, the most urgent first, whatever their length. But after a batch
  of urgent texts, another client whose text is not urgent goes first. So a client whose large
  request is late holds up nobody for more than a batch.

Texts of similar length wait in one bucket. It holds a queue for each request, and two heaps of
these queues: by the finish time of the first text, and by when the queue becomes urgent. Taking a
text by one heap leaves the other stale. A stale entry is corrected when it comes first, and ended
queues are removed when they fill more than half of a heap. So a step costs the logarithm of the
number of queues on average, and ended queues take no more room than waiting ones.
"""

import asyncio
import heapq
import logging
import math
import time
from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack
from dataclasses import dataclass, field
from enum import IntEnum
from functools import lru_cache, partial
from typing import Any, Generic, TypeVar

from model import Encoding
from model.predictor import PathName
from service.errors import INTERNAL_DETAIL, UNCOMPUTABLE_DETAIL, InternalError
from service.logs import safe_message
from service.metrics import EXPLICIT, FUSED, GRADIENT
from service.tracing.record import NOTHING, Trace

Result = TypeVar("Result")
logger = logging.getLogger("headlight.queue")

DRAINED = "The service is shutting down: send the request to another replica, or again later."
# Lengths that differ by less than a ninth are similar.
_BUCKETS_PER_DOUBLING = 6
# The fixed cost of a pass, in tokens: this much padding is cheaper than one more pass.
PASS_TOKENS = 48
_PADDING_SHARE = 0.5
# A pass of few shapes pads texts to so many tokens, or a doubling, and has so many texts at most.
_FEWEST_COLUMNS, _MOST_ROWS = 16, 1_024
# The weight of a text's length in its finish time, for a client with one request. With 1, long
# texts wait in proportion to their length, as exact fairness wants; 0 is first come, first served.
_LENGTH_WEIGHT = 0.5


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


# Where lengths are mixed, only the path says how long a text keeps the device busy.
_WEIGHTS: Mapping[PathName, Weight] = {FUSED: Weight.LIGHT, EXPLICIT: Weight.HEAVY}


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
        self.tokens = sum([len(encoding.input_ids) for encoding in self.encodings])

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
            logger.exception("a result could not be finished", extra=safe_message(error))
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


# Only texts with the first two in common share a batch: a path (or a request) and a weight. The
# third is their length on a logarithmic scale.
_Key = tuple[Hashable, Weight, int]
# The texts of one request in a bucket; the first one to go is last, where `pop` is cheap.
_Queue = list[Item]
_Heap = list[tuple[float, int, _Queue]]


class Bucket:
    """Queues of texts of similar length; false when no text waits."""

    def __init__(self) -> None:
        self._by_finish: _Heap = []
        self._by_urgency: _Heap = []
        self._waiting_queues = 0

    def __bool__(self) -> bool:
        """Whether a text waits."""
        return self._waiting_queues > 0

    def add(self, queue: _Queue) -> None:
        """Adds a queue of texts."""
        first = queue[-1]
        heapq.heappush(self._by_finish, (first.finish_time, first.number, queue))
        heapq.heappush(self._by_urgency, (first.request.urgent_at, first.number, queue))
        self._waiting_queues += 1

    def first(self, now: float) -> _Queue | None:
        """Returns the most urgent queue, else the one with the earliest finish time, else None."""
        return self.most_urgent(now) or self._earliest_finish()

    def most_urgent(self, now: float) -> _Queue | None:
        """Returns the queue that has been urgent for longest; None if none is urgent."""
        while self._by_urgency and self._by_urgency[0][0] <= now:
            queue = self._by_urgency[0][2]
            if queue:
                return queue
            heapq.heappop(self._by_urgency)
        return None

    def _earliest_finish(self) -> _Queue | None:
        while self._by_finish:
            _, number, queue = self._by_finish[0]
            if not queue:
                heapq.heappop(self._by_finish)
            elif number != queue[-1].number:
                entry = queue[-1].finish_time, queue[-1].number, queue
                heapq.heapreplace(self._by_finish, entry)
            else:
                return queue
        return None

    def note_end(self) -> None:
        """Notes that a queue has become empty."""
        self._waiting_queues -= 1
        self._by_finish = self._without_ended(self._by_finish)
        self._by_urgency = self._without_ended(self._by_urgency)

    def _without_ended(self, heap: _Heap) -> _Heap:
        """Removes the queues that have ended, if they fill more than half of a heap."""
        if len(heap) <= 2 * self._waiting_queues:
            return heap
        kept = [entry for entry in heap if entry[2]]
        heapq.heapify(kept)
        return kept


class Schedule:
    """The texts that wait; one thread at a time may use it.

    A batch has at most `max_batch_tokens` of `longest * count`; a longer text goes by itself. With
    `mixes_lengths`, its texts have any length, and the longest counts as the device pads it.
    Maps of attention fill memory, so texts that are explained have a limit of their own.
    """

    def __init__(
        self,
        max_batch_tokens: int,
        *,
        mixes_lengths: bool = False,
        explained_tokens: float = math.inf,
    ) -> None:
        self._max_batch_tokens = max_batch_tokens
        self._explained_tokens = explained_tokens
        self._mixes_lengths = mixes_lengths
        self._buckets: dict[_Key, Bucket] = {}
        self._virtual_time = 0.0  # cost served to each waiting client so far
        self._next_number = 0
        self._requests: Counter[Hashable] = Counter()  # waiting ones of each client
        self._urgent_client: Hashable = None  # that the last batch began with, if it was urgent
        self.tokens = 0
        #: tokens that wait, by client
        self.waiting: Counter[Hashable] = Counter()

    def add(self, request: Request, items: Sequence[Item]) -> None:
        """Queues the items of a request, in the order in which they go if all else is equal.

        Gradients of two requests do not share a pass. A client None sends no other request.
        """
        client = _client_of(request)
        self._requests[client] += 1
        requests = self._requests[client]  # each has this part of its client's share
        rate = request.cost * (_LENGTH_WEIGHT if requests == 1 else requests)
        group: Hashable = request if request.path == GRADIENT else request.path
        finish = self._virtual_time
        for number, item in enumerate(items, start=self._next_number):
            finish += rate * item.tokens
            item.finish_time, item.number = finish, number
            key = group, *self._class_of(request, item.tokens)
            request.queues.setdefault(key, []).append(item)
            request.waiting_tokens += item.tokens
        self._next_number += len(items)
        request.waiting_items = len(items)
        for key, queue in request.queues.items():
            queue.reverse()
            self._buckets.setdefault(key, Bucket()).add(queue)
        self.tokens += request.waiting_tokens
        self.waiting[client] += request.waiting_tokens

    def _class_of(self, request: Request, tokens: int) -> tuple[Weight, int]:
        if self._mixes_lengths:
            return _WEIGHTS.get(request.path, request.weight), 0
        return request.weight, _length_class(tokens)

    def drop(self, request: Request) -> int:
        """Removes the waiting texts of a request, if there are any left; returns their tokens."""
        tokens, items = request.waiting_tokens, request.waiting_items
        if items:
            for key, queue in request.queues.items():
                if queue:
                    queue.clear()
                    self._buckets[key].note_end()
            self._note_gone(request, tokens, items)
            self._remove_empty_buckets(request.queues)
        request.queues.clear()  # gradients are queued under their request
        return tokens

    def take(
        self,
        most_tokens: float = math.inf,
        *,
        now: float = -math.inf,
        may_take: Callable[[Weight], bool] = lambda _: True,
    ) -> list[Item]:
        """Takes the texts of the next batch, always with the one that goes first.

        Args:
            most_tokens: a smaller limit than `max_batch_tokens`, for this batch.
            now: the time.
            may_take: whether texts of a weight may be taken.
        """
        now = self._after_urgent(now, may_take)
        key = self._first_bucket(now, may_take)
        if key is None:
            return []
        explained = self._explained_tokens if key[0] == EXPLICIT else math.inf
        limit = min(self._max_batch_tokens, most_tokens, explained)
        urgent = self._buckets[key].most_urgent(now)
        self._urgent_client = _client_of(urgent[-1].request) if urgent else None
        items = list(self._take_similar(key, limit, now))
        served = sum(item.tokens * item.request.cost for item in items)
        self._virtual_time += served / len(self._requests)
        for item in items:
            self._note_gone(item.request, item.tokens, 1)
        self._remove_empty_buckets(list(self._buckets))
        if not self.tokens:
            self._virtual_time = 0.0
        return items

    def waits(self, may_take: Callable[[Weight], bool]) -> bool:
        """Whether a text waits that may be taken."""
        return any(may_take(weight) for _, weight, _ in self._buckets)

    def _note_gone(self, request: Request, tokens: int, items: int) -> None:
        client = _client_of(request)
        request.waiting_tokens -= tokens
        request.waiting_items -= items
        self.tokens -= tokens
        self.waiting[client] -= tokens
        if not request.waiting_items:
            self._requests[client] -= 1
            if not self._requests[client]:
                del self._requests[client], self.waiting[client]

    def _after_urgent(self, now: float, may_take: Callable[[Weight], bool]) -> float:
        """Returns the time by which urgency counts for the next batch; minus infinity: not."""
        if self._urgent_client is None:
            return now
        key = self._first_bucket(-math.inf, may_take)
        queue = None if key is None else self._buckets[key].first(-math.inf)
        if queue is None or queue[-1].request.urgent_at <= now:
            return now
        return now if _client_of(queue[-1].request) == self._urgent_client else -math.inf

    def _first_bucket(self, now: float, may_take: Callable[[Weight], bool]) -> _Key | None:
        """Finds the bucket of the text that goes first."""
        order: dict[_Key, tuple[float, float, int]] = {}
        for key, bucket in self._buckets.items():
            queue = bucket.first(now) if may_take(key[1]) else None
            if queue is not None:
                first = queue[-1]
                urgency = first.request.urgent_at if first.request.urgent_at <= now else math.inf
                order[key] = (urgency, first.finish_time, first.number)
        return min(order, key=order.__getitem__, default=None)

    def _take_similar(self, key: _Key, limit: float, now: float) -> Iterator[Item]:
        """Takes texts of one kind, urgent ones first, while that saves work."""
        same_kind = [other for other in self._buckets if other[:2] == key[:2]]
        same_kind.sort(key=lambda other: abs(other[2] - key[2]))
        buckets = [self._buckets[other] for other in same_kind]
        urgent = [(bucket, bucket.most_urgent) for bucket in buckets]
        count = tokens = longest = 0
        for bucket, find_queue in urgent + [(bucket, bucket.first) for bucket in buckets]:
            while (queue := find_queue(now)) is not None:
                item = queue[-1]
                new_longest = max(longest, item.tokens)
                if self._mixes_lengths:
                    new_longest = max(_FEWEST_COLUMNS, 1 << (new_longest - 1).bit_length())
                padded = new_longest * (count + 1)
                padding = padded - tokens - item.tokens
                if count and (padded > limit or (self._mixes_lengths and count == _MOST_ROWS)):
                    break
                if padding > max(PASS_TOKENS, _PADDING_SHARE * padded) and not self._mixes_lengths:
                    break
                yield queue.pop()
                if not queue:
                    bucket.note_end()
                count, tokens, longest = count + 1, tokens + item.tokens, new_longest

    def _remove_empty_buckets(self, keys: Iterable[_Key]) -> None:
        """Removes empty buckets; with one for each request of gradients, they would fill memory."""
        for key in keys:
            if key in self._buckets and not self._buckets[key]:
                del self._buckets[key]


def _client_of(request: Request) -> Hashable:
    return request if request.caller.client is None else request.caller.client


@lru_cache(1024)
def _length_class(tokens: int) -> int:
    return round(_BUCKETS_PER_DOUBLING * math.log2(max(tokens, 1)))
