"""The queue between requests and the model: from waiting texts to batches, and back in order.

One forward pass runs at a time, on a thread of its own, never on the event loop. A request is
admitted by its tokens, waits, is spread over as many batches as it needs, and is put together
again. Nobody waits for ever: a full queue, a failed pass and shutdown all answer every waiter;
a waiter that is cancelled (deadline passed, client gone) leaves the queue at once.
"""

import asyncio
import time
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass
from typing import Generic, TypeVar

from model import Encoding, Explanation, Prediction
from service.errors import INTERNAL_DETAIL, DrainingError, InternalError, OverloadedError
from service.metrics import EXPLICIT, FUSED, Metrics

Result = TypeVar("Result")
Classify = Callable[[Sequence[Encoding]], list[Prediction]]

_DRAINED = "The service is shutting down: send the request to another replica, or again later."
_WEIGHT_OF_LAST_PASS = 0.2


@dataclass(slots=True, eq=False)
class _Waiter(Generic[Result]):
    """A request that waits for `missing` of its results."""

    future: asyncio.Future[list[Result]]
    results: dict[int, Result]
    missing: int
    waiting_tokens: int

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


class Batcher:
    """Forms batches within a token budget and answers those who wait.

    Args:
        classify: one forward pass over the texts of a batch; called on the executor.
        executor: has one thread, on which every forward pass runs.
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
        max_batch_tokens: int,
        max_queue_tokens: int,
        metrics: Metrics,
        on_pass: Callable[[Exception | None], None],
    ) -> None:
        self._classify = classify
        self._executor = executor
        self._max_batch_tokens = max_batch_tokens
        self._max_queue_tokens = max_queue_tokens
        self._metrics = metrics
        self._on_pass = on_pass
        self._queue: deque[_Text | _Alone] = deque()
        self._queued_tokens = 0
        self._tokens_per_second = float(max_batch_tokens)
        self._wake = asyncio.Event()
        self._closed = False
        self._worker = asyncio.create_task(self._work(), name="batcher")

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
        waiter: _Waiter[Prediction] = self._admit(encodings)
        texts = [_Text(waiter, index, encoding) for index, encoding in enumerate(encodings)]
        # Neighbours of like length share a batch, so that little of it is padding.
        texts.sort(key=lambda text: len(text.encoding.input_ids))
        return await self._wait(waiter, texts)

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
        waiter: _Waiter[Explanation] = self._admit([encoding])
        (explanation,) = await self._wait(waiter, [_Alone(waiter, encoding, explain)])
        return explanation

    async def close(self) -> None:
        """Lets the pass in hand end and refuses all who wait."""
        self._closed = True
        self._wake.set()
        await self._worker
        while self._queue:
            self._queue.popleft().waiter.fail(DrainingError(_DRAINED))

    def _admit(self, encodings: Sequence[Encoding]) -> _Waiter[Result]:
        if self._closed:
            raise DrainingError(_DRAINED)
        tokens = sum(len(encoding.input_ids) for encoding in encodings)
        if self._queued_tokens + tokens > self._max_queue_tokens:
            raise OverloadedError(
                f"{self._queued_tokens} tokens are waiting, the request has {tokens}, and the "
                f"queue holds {self._max_queue_tokens}: come back later, or try another replica.",
                retry_after=self._queued_tokens / self._tokens_per_second,
            )
        self._count_waiting(tokens)
        future: asyncio.Future[list[Result]] = asyncio.get_running_loop().create_future()
        return _Waiter(future, {}, len(encodings), tokens)

    async def _wait(
        self, waiter: _Waiter[Result], entries: Sequence[_Text | _Alone]
    ) -> list[Result]:
        self._queue.extend(entries)
        self._wake.set()
        self._metrics.queue_requests.inc()
        try:
            return await waiter.future
        finally:
            self._metrics.queue_requests.dec()
            self._count_waiting(-waiter.waiting_tokens)
            waiter.waiting_tokens = 0

    def _count_waiting(self, tokens: int) -> None:
        self._queued_tokens += tokens
        self._metrics.queue_tokens.set(self._queued_tokens)

    async def _work(self) -> None:
        while not self._closed:
            batch = self._next_batch()
            if batch is None:
                self._wake.clear()
                await self._wake.wait()
            else:
                await self._run(batch)

    def _next_batch(self) -> _TextBatch | _Alone | None:
        """Takes entries from the head of the queue, in the order of their coming."""
        texts: list[_Text] = []
        longest = 0
        while self._queue:
            entry = self._queue[0]
            length = len(entry.encoding.input_ids)
            if entry.waiter.future.done():
                self._queue.popleft()
                continue
            if isinstance(entry, _Alone):
                if texts:
                    break
                self._take(entry, length)
                return entry
            longest = max(longest, length)
            if texts and longest * (len(texts) + 1) > self._max_batch_tokens:
                break
            self._take(entry, length)
            texts.append(entry)
        return _TextBatch(texts, self._classify) if texts else None

    def _take(self, entry: _Text | _Alone, tokens: int) -> None:
        self._queue.popleft()
        entry.waiter.waiting_tokens -= tokens
        self._count_waiting(-tokens)

    async def _run(self, batch: _TextBatch | _Alone) -> None:
        started = time.perf_counter()
        try:
            deliver = await asyncio.get_running_loop().run_in_executor(
                self._executor, batch.compute
            )
        except Exception as error:  # whatever a pass raises, all who wait for it must hear of it
            batch.fail(InternalError(INTERNAL_DETAIL))
            self._metrics.forward_failures.inc()
            self._on_pass(error)
            return
        deliver()
        seconds = time.perf_counter() - started
        encodings = batch.encodings
        self._metrics.observe_pass(encodings, seconds, batch.path)
        rate = sum(len(encoding.input_ids) for encoding in encodings) / seconds
        self._tokens_per_second += _WEIGHT_OF_LAST_PASS * (rate - self._tokens_per_second)
        self._on_pass(None)
