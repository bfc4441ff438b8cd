"""Runs the batches of a queue on threads, reports each pass, and replaces a thread that stops."""

import asyncio
import logging
import time
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import Executor

from model.predictor import PathName
from service.errors import DrainingError
from service.logs import safe_fault
from service.metrics import GRADIENT, Metrics
from service.queue.queue import EXTRA_WORKERS, Queue, Worker
from service.queue.request import DRAINED, Batch, Weight, failure

logger = logging.getLogger("headlight.workers")

# A worker that stops so often, with fewer passes of all workers in between, is not replaced.
MOST_STOPS = 3
WITHIN_PASSES = 100

_STUCK = "The forward pass does not end: send the request to another replica."


class Workers:
    """The threads of a queue, until `close`.

    Args:
        executor: has a thread for each worker, which only runs passes until `close`.
        extra: whether the executor has threads for `EXTRA_WORKERS` too.
        begin: called on the thread of a worker, with the weight that it takes, or None.
        use_threads: called before a pass with its number of threads, if that changes.
        on_pass: called after each pass with its path, when it began, and its error or None.
        on_lost: called when a worker cannot be restarted; nothing is computed any more.
    """

    def __init__(
        self,
        queue: Queue,
        executor: Executor,
        *,
        count: int = 1,
        extra: bool = False,
        begin: Callable[[Weight | None], None] = lambda _: None,
        use_threads: Callable[[int], None] = lambda _: None,
        max_batch_tokens: int,
        computes_padding: bool = True,
        metrics: Metrics,
        on_pass: Callable[[PathName, float, Exception | None], None],
        on_lost: Callable[[], None],
    ) -> None:
        self._queue = queue
        self._executor = executor
        self._begin = begin
        self._use_threads = use_threads
        self._max_batch_tokens = max_batch_tokens
        self._computes_padding = computes_padding
        self._metrics = metrics
        self._on_pass = on_pass
        self._on_lost = on_lost
        self._loop = asyncio.get_running_loop()
        self._passes = 0
        self._only: list[Weight | None] = [None] * count + list(EXTRA_WORKERS if extra else ())
        positions = range(len(self._only))
        # After how many passes each stopped lately.
        self._stops: list[deque[int]] = [deque(maxlen=MOST_STOPS) for _ in positions]
        self._threads = [
            self._loop.run_in_executor(executor, self._work, position) for position in positions
        ]

    async def close(self, patience: float | None = None) -> bool:
        """Refuses all waiting requests; returns whether all passes ended in `patience` seconds."""
        self._queue.close()
        _, stuck = await asyncio.wait(self._threads, timeout=patience)
        await asyncio.sleep(0)  # the results of the last passes are delivered first
        self._queue.fail_all(DrainingError(_STUCK if stuck else DRAINED, retry_after=1))
        return not stuck

    def _work(self, position: int) -> None:
        """Runs a worker on a thread of the executor, and has it restarted if it stops."""
        worker = Worker(self._only[position])
        try:
            self._begin(worker.only)
            self._run_batches(worker)
        except BaseException as error:  # nothing else would notice
            try:
                self._queue.put_down(worker)
                self._queue.wake_another()
            finally:
                self._loop.call_soon_threadsafe(self._replace, position, worker.batch, error)

    def _run_batches(self, worker: Worker) -> None:
        """Runs one batch after the other until the queue is closed."""
        threads = 0
        while (batch := self._queue.next_batch(worker)) is not None:
            results: Sequence[object] = ()
            failed: Exception | None = None
            try:
                if worker.threads != threads:
                    self._use_threads(worker.threads)
                    threads = worker.threads
                results = batch.compute(self._loop.call_soon_threadsafe)
            except Exception as error:  # every request gets an answer, whatever a pass raises
                failed = error
            seconds = time.monotonic() - batch.began
            self._queue.put_down(worker, computed=failed is None)
            self._loop.call_soon_threadsafe(self._report, batch, results, failed, seconds)
            worker.batch = None

    def _report(
        self, batch: Batch, results: Sequence[object], error: Exception | None, seconds: float
    ) -> None:
        """Answers the requests of a batch, and counts its pass."""
        self._passes += 1
        try:
            if error is not None:
                batch.fail(failure(error))
            else:
                batch.deliver(results)
            if batch.errors:
                first = batch.errors[0]
                counts = {"texts": len(batch.errors), "together": len(batch.items)}
                logger.error(
                    "texts failed alone", exc_info=first, extra={**counts, **safe_fault(first)}
                )
            if batch.encodings:
                self._count(batch, error, seconds)
                self._on_pass(batch.path, batch.began, error)
        except Exception as own:  # else its items could wait for ever
            logger.exception("the report of a pass failed")
            batch.fail(failure(own))

    def _count(self, batch: Batch, error: Exception | None, seconds: float) -> None:
        if error is not None:
            self._metrics.forward_failures.inc()
            return
        self._metrics.observe_pass(
            batch.encodings,
            seconds,
            batch.path,
            max_tokens=self._max_batch_tokens,
            computes_padding=self._computes_padding and batch.path != GRADIENT,
        )

    def _replace(self, position: int, batch: Batch | None, error: BaseException) -> None:
        """Answers the requests of a worker that stopped, and starts another in its place."""
        logger.error(
            "worker thread stopped unexpectedly; restarting it",
            exc_info=error,
            extra=safe_fault(error),
        )
        if batch is not None:
            batch.fail(failure(error))
        else:  # it may have taken any text from the queue
            self._queue.fail_all(failure(error))
        stops = self._stops[position]
        stops.append(self._passes)
        if len(stops) == MOST_STOPS and self._passes - stops[0] < WITHIN_PASSES:
            self._lose()
        else:
            # Those who were just answered leave the queue first.
            self._loop.call_soon(self._start, position)

    def _start(self, position: int) -> None:
        if self._queue.closed:
            return
        try:
            self._threads[position] = self._loop.run_in_executor(
                self._executor, self._work, position
            )
        except RuntimeError:  # the executor is shut down, or has no thread to give
            logger.exception("worker thread cannot be restarted")
            self._lose()

    def _lose(self) -> None:
        if not self._queue.closed:
            self._on_lost()
