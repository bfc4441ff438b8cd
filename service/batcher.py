"""The queue between requests and the model: from waiting texts to batches, and back in order.

Forward passes run on threads of their own, the lanes, never on the event loop. A lane takes its
next batch itself, so that it does not wait for an event loop that is busy with requests. Several
lanes of one core each get more from a processor than one pass over all cores, whose threads wait
for each other a hundred times; a text that comes when all is idle may have all cores. A
request is admitted by its tokens, waits, is spread over as many batches as it needs, and is put
together again. Nobody waits for ever: a full queue, a failed pass and shutdown all answer every
waiter; a waiter that is cancelled (deadline passed, client gone) leaves the queue at once.
"""

import asyncio
import math
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass
from functools import partial
from typing import Any, Generic, TypeVar

from model import Encoding, Explanation, Prediction
from service.errors import INTERNAL_DETAIL, DrainingError, InternalError, OverloadedError
from service.metrics import EXPLICIT, FUSED, Metrics
from service.schedule import Schedule, Turn

Result = TypeVar("Result")
Classify = Callable[[Sequence[Encoding]], list[Prediction]]

# Below this, sharing a pass among cores costs more than it gains.
_WORTH_SHARING_TOKENS = 100
# A text of more tokens keeps a core busy for so long that short ones must not wait for it: while
# they come this often, in seconds, one lane is theirs.
_LONG_TOKENS = 128
_SHORT_COME_WITHIN = 0.05

_DRAINED = "The service is shutting down: send the request to another replica, or again later."
_WEIGHT_OF_LAST_PASS = 0.2


@dataclass(slots=True, eq=False)
class _Waiter(Generic[Result]):
    """A request that waits for `missing` of its results."""

    future: asyncio.Future[list[Result]]
    results: dict[int, Result]
    missing: int

    def deliver(self, index: int, result: Result) -> None:
        self.results[index] = result
        self.missing -= 1
        if not self.missing and not self.future.done():
            self.future.set_result([self.results[place] for place in range(len(self.results))])

    def fail(self, error: Exception) -> None:
        if not self.future.done():
            self.future.set_exception(error)


@dataclass(slots=True, eq=False)
class _Text:
    """One text of a request, to be classified in a batch with others."""

    waiter: _Waiter[Prediction]
    index: int
    encoding: Encoding


@dataclass(slots=True, eq=False)
class _TextBatch:
    """The texts of one fused pass."""

    path = FUSED
    texts: list[_Text]
    classify: Classify

    @property
    def encodings(self) -> list[Encoding]:
        return [text.encoding for text in self.texts]

    def compute(self) -> Callable[[], None]:
        """Runs the pass, and returns what hands its results out on the event loop."""
        predictions = self.classify(self.encodings)
        return lambda: self._deliver(predictions)

    def _deliver(self, predictions: list[Prediction]) -> None:
        for text, prediction in zip(self.texts, predictions, strict=True):
            text.waiter.deliver(text.index, prediction)

    def fail(self, error: Exception) -> None:
        for text in self.texts:
            text.waiter.fail(error)


@dataclass(slots=True, eq=False)
class _Alone:
    """One text whose pass, the explicit one, is its own."""

    path = EXPLICIT
    waiter: _Waiter[Explanation]
    encoding: Encoding
    explain: Callable[[], Explanation]

    @property
    def encodings(self) -> list[Encoding]:
        return [self.encoding]

    def compute(self) -> Callable[[], None]:
        """Runs the pass, and returns what hands its result out on the event loop."""
        explanation = self.explain()
        return lambda: self.waiter.deliver(0, explanation)

    def fail(self, error: Exception) -> None:
        self.waiter.fail(error)


@dataclass(slots=True, eq=False)
class _Call:
    """Something else that must run on a lane; it is no pass that is counted."""

    waiter: _Waiter[None]
    work: Callable[[], None]

    def compute(self) -> Callable[[], None]:
        """Runs it, and returns what tells so on the event loop."""
        self.work()
        return lambda: self.waiter.deliver(0, None)

    def fail(self, error: Exception) -> None:
        self.waiter.fail(error)


_Entry = _Text | _Alone | _Call


class Batcher:
    """Forms batches within a token budget and answers those who wait.

    Args:
        classify: one forward pass over the texts of a batch; called on the executor, by as many
            threads at once as there are lanes.
        executor: has a thread for each lane, which from now on until the end runs passes alone.
        lanes: passes that may run at once.
        use_threads: told before a pass how many threads it may have, if that changes.
        max_batch_tokens: `longest * count` of a batch stays within it; a longer text goes alone.
        max_queue_tokens: tokens that may wait.
        metrics: where passes and the queue are counted.
        on_pass: told after each pass whether it worked (None) or what it raised.
    """

    def __init__(
        self,
        classify: Classify,
        *,
        executor: Executor,
        lanes: int = 1,
        use_threads: Callable[[int], None] = lambda _: None,
        max_batch_tokens: int,
        max_queue_tokens: int,
        metrics: Metrics,
        on_pass: Callable[[Exception | None], None],
    ) -> None:
        self._classify = classify
        self._max_queue_tokens = max_queue_tokens
        self._metrics = metrics
        self._on_pass = on_pass
        self._tokens_per_second = float(max_batch_tokens)
        self._lanes = lanes
        self._use_threads = use_threads
        # Guards all that follows, which the event loop and all lanes use.
        self._changed = threading.Condition()
        self._schedule: Schedule[_Entry] = Schedule(max_batch_tokens)
        self._closed = False
        self._busy = 0
        self._busy_with_long = 0
        self._short_came = -math.inf
        self._waiters: set[_Waiter[Any]] = set()
        metrics.queue_tokens.set_function(lambda: float(self._schedule.tokens))
        metrics.queue_requests.set_function(lambda: float(len(self._waiters)))
        self._loop = asyncio.get_running_loop()
        self._workers = [self._loop.run_in_executor(executor, self._work) for _ in range(lanes)]

    async def predict(self, encodings: Sequence[Encoding]) -> list[Prediction]:
        """Waits for the predictions of one request.

        Args:
            encodings: its texts, at least one.

        Returns:
            A prediction for each, in their order.

        Raises:
            OverloadedError: the queue has no room for all of them.
            InternalError: the forward pass of one of them failed.
            DrainingError: the service ends.
        """
        waiter: _Waiter[Prediction] = self._waiter(len(encodings))
        texts = [
            (_Text(waiter, index, encoding), len(encoding.input_ids))
            for index, encoding in enumerate(encodings)
        ]
        # Neighbours of like length share a batch, so that little of it is padding.
        texts.sort(key=lambda text: text[1])
        return await self._wait(waiter, texts, alone=False)

    async def explain(self, encoding: Encoding, explain: Callable[[], Explanation]) -> Explanation:
        """Waits for a forward pass of its own.

        Args:
            encoding: the text, for its size.
            explain: the pass; called on the executor.

        Raises:
            OverloadedError: the queue has no room for it.
            InternalError: the pass failed.
            DrainingError: the service ends.
        """
        waiter: _Waiter[Explanation] = self._waiter(1)
        entry = (_Alone(waiter, encoding, explain), len(encoding.input_ids))
        (explanation,) = await self._wait(waiter, [entry], alone=True)
        return explanation

    async def run(self, work: Callable[[], None]) -> None:
        """Waits until something has run on a lane.

        Args:
            work: what to run.

        Raises:
            InternalError: it raised; its own error is the cause.
            DrainingError: the service ends.
        """
        waiter: _Waiter[None] = self._waiter(1)
        await self._wait(waiter, [(_Call(waiter, work), 0)], alone=True)

    async def close(self) -> None:
        """Lets the passes in hand end and refuses all who wait."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()
        await asyncio.gather(*self._workers)
        await asyncio.sleep(0)  # the results of the last passes are handed out first
        for waiter in list(self._waiters):
            waiter.fail(DrainingError(_DRAINED))

    def _waiter(self, count: int) -> _Waiter[Result]:
        return _Waiter(self._loop.create_future(), {}, count)

    async def _wait(
        self,
        waiter: _Waiter[Result],
        entries: Sequence[tuple[_Entry, int]],
        *,
        alone: bool,
    ) -> list[Result]:
        turn = self._admit(entries, alone=alone)
        self._waiters.add(waiter)
        try:
            return await waiter.future
        finally:
            self._waiters.discard(waiter)
            if turn.waiting_texts:
                with self._changed:
                    self._schedule.drop(turn)

    def _admit(self, entries: Sequence[tuple[_Entry, int]], *, alone: bool) -> Turn:
        tokens = sum(count for _, count in entries)
        with self._changed:
            if self._closed:
                raise DrainingError(_DRAINED)
            waiting = self._schedule.tokens
            if waiting + tokens <= self._max_queue_tokens:
                turn = self._schedule.add(entries, alone=alone)
                if any(count <= _LONG_TOKENS for _, count in entries):
                    self._short_came = time.monotonic()
                self._changed.notify(min(len(entries), self._lanes))
                return turn
        raise OverloadedError(
            f"{waiting} tokens are waiting, the request has {tokens}, and the "
            f"queue holds {self._max_queue_tokens}: come back later, or try another replica.",
            retry_after=waiting / self._tokens_per_second,
        )

    def _work(self) -> None:
        """One lane: runs on a thread of the executor until the batcher is closed."""
        threads_before = 0
        while (taken := self._next_batch()) is not None:
            batch, threads, is_long = taken
            started = time.perf_counter()
            try:
                if threads != threads_before:
                    self._use_threads(threads)
                    threads_before = threads
                deliver = batch.compute()
            except Exception as error:  # whatever a pass raises, all who wait for it must hear
                tell = partial(self._failed, batch, error)
            else:
                tell = partial(self._worked, batch, deliver, time.perf_counter() - started)
            with self._changed:
                self._busy -= 1
                self._busy_with_long -= is_long
                self._changed.notify()  # one that left a long text to others may take it now
            self._loop.call_soon_threadsafe(tell)

    def _next_batch(self) -> tuple[_TextBatch | _Alone | _Call, int, bool] | None:
        """Waits for the next batch; says how many threads it may have, and whether it is long.

        None once the batcher is closed.
        """
        with self._changed:
            while not self._closed:
                tokens = self._schedule.tokens
                # What waits is shared among the lanes, so that none is left without work.
                entries = self._schedule.take(
                    max(tokens // self._lanes, _WORTH_SHARING_TOKENS), longest=self._longest()
                )
                if entries:
                    break
                self._changed.wait(_SHORT_COME_WITHIN if tokens else None)
            else:
                return None
            taken = tokens - self._schedule.tokens
            is_long = taken > _LONG_TOKENS * len(entries)
            self._busy += 1
            self._busy_with_long += is_long
            alone = self._busy == 1 and not self._schedule.tokens
        threads = self._lanes if alone and taken >= _WORTH_SHARING_TOKENS else 1
        first = entries[0]
        if not isinstance(first, _Text):
            return first, threads, is_long
        texts = [entry for entry in entries if isinstance(entry, _Text)]
        return _TextBatch(texts, self._classify), threads, is_long

    def _longest(self) -> float:
        """The longest text that the next batch may have, in tokens."""
        is_last = self._lanes > 1 and self._busy_with_long >= self._lanes - 1
        if is_last and time.monotonic() - self._short_came < _SHORT_COME_WITHIN:
            return _LONG_TOKENS
        return math.inf

    def _failed(self, batch: _TextBatch | _Alone | _Call, error: Exception) -> None:
        failure = InternalError(INTERNAL_DETAIL)
        failure.__cause__ = error
        batch.fail(failure)
        if not isinstance(batch, _Call):
            self._metrics.forward_failures.inc()
            self._on_pass(error)

    def _worked(
        self, batch: _TextBatch | _Alone | _Call, deliver: Callable[[], None], seconds: float
    ) -> None:
        deliver()
        if isinstance(batch, _Call):
            return
        encodings = batch.encodings
        self._metrics.observe_pass(encodings, seconds, batch.path)
        rate = sum(len(encoding.input_ids) for encoding in encodings) / seconds
        self._tokens_per_second += _WEIGHT_OF_LAST_PASS * (rate - self._tokens_per_second)
        self._on_pass(None)
