"""Holds the requests that wait for the network, and runs their batches on threads.

Each worker takes its next batch itself, so that it does not wait for a busy event loop. There is an
ordinary worker for each core. Extra workers take requests of one weight while heavier passes keep
all cores busy: one takes light requests, the other all predictions but light ones while gradients
run. Nobody waits for ever: a full queue, a failed pass, a worker that stops and shutdown answer
every request.
"""

import asyncio
import logging
import math
import threading
import time
from collections import deque
from collections.abc import Callable, Hashable, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeVar

from model import AttentionOptions, Encoding, Explanation, Prediction
from model.predictor import PathName
from service.errors import DrainingError, InternalError
from service.logs import safe_message
from service.metrics import EXPLICIT, FUSED, GRADIENT, Metrics
from service.queue.admission import NO_LIMITS, Admission, WorkLimits
from service.queue.scheduler import (
    ANYONE,
    DRAINED,
    Batch,
    ClientId,
    Item,
    Job,
    Request,
    Schedule,
    Weight,
    failure,
)
from service.tracing.record import CURRENT

Result = TypeVar("Result")
logger = logging.getLogger("headlight.workers")

# After this share of its time, a request is urgent.
_URGENT_SHARE = 0.4
# With fewer tokens, sharing work among cores costs more than it gains.
WORTH_SHARING_TOKENS = 100
_FEWEST_TOKENS_PER_THREAD = 8
# Weights of attention that are written in the time of a token.
_NUMBERS_PER_TOKEN = 1000
# No text waits for a pass that has taken longer.
_LONG_SECONDS = 2.0
#: the weights for which there are extra workers
EXTRA_WORKERS = (Weight.LIGHT, Weight.HEAVY)
# A worker that stops so often, with fewer passes of all workers in between, is not replaced.
MOST_STOPS = 3
WITHIN_PASSES = 100
_STUCK = "The forward pass does not end: send the request to another replica."


@dataclass(slots=True, eq=False)
class Worker:
    """What a worker is doing.

    Args:
        only: the weight of the requests that it takes; None for an ordinary one.
        batch: what it computes, until it reports.
        free_since: when its last pass ended, or it was woken.
        threads: those of the pass.
        is_full: whether more texts waited when it took the batch.
    """

    only: Weight | None = None
    batch: Batch | None = None
    free_since: float = 0.0
    threads: int = 1
    is_full: bool = False


class Queue:
    """The requests that wait, and the workers, until `close`.

    Args:
        classify: runs one forward pass over the texts of a batch, and returns a prediction or an
            error for each. All workers may call it at once.
        explain: the same with attention.
        executor: has a thread for each worker, which only runs passes until `close`.
        workers: how many take any request.
        extra: whether the executor has threads for `EXTRA_WORKERS` too.
        cores: how many workers compute at once; the others prepare and answer. None: all.
        worth_sharing: the fewest tokens for which the only pass uses several threads.
        max_batch_tokens: limit of `longest * count` of a batch; a longer text goes by itself.
        computes_padding: whether padding goes through the network too.
        mixes_lengths: whether texts of any length share a batch; see `Schedule`, also for
            `explained_tokens`.
        begin: called on the thread of a worker, with the weight that it takes, or None.
        use_threads: called before each pass with its number of threads.
        on_pass: called after each pass with its path, when it began, and its error or None.
        on_lost: called when a worker cannot be restarted; nothing is computed any more.
    """

    def __init__(
        self,
        classify: Callable[[Sequence[Encoding]], Sequence[Prediction | Exception]],
        explain: Callable[[Sequence[AttentionOptions]], Sequence[Explanation | Exception]],
        executor: Executor,
        *,
        workers: int = 1,
        extra: bool = False,
        cores: int | None = None,
        worth_sharing: int = WORTH_SHARING_TOKENS,
        max_batch_tokens: int,
        max_queue_tokens: int,
        computes_padding: bool = True,
        mixes_lengths: bool = False,
        explained_tokens: float = math.inf,
        limits: WorkLimits = NO_LIMITS,
        metrics: Metrics,
        begin: Callable[[Weight | None], None] = lambda _: None,
        use_threads: Callable[[int], None] = lambda _: None,
        on_pass: Callable[[PathName, float, Exception | None], None],
        on_lost: Callable[[], None],
    ) -> None:
        lock = threading.RLock()  # guards the schedule, the admission and what workers do
        self._changed = threading.Condition(lock)
        self._extra_wanted = threading.Condition(lock)
        self._schedule = Schedule(
            max_batch_tokens, mixes_lengths=mixes_lengths, explained_tokens=explained_tokens
        )
        self._limits = limits
        self._admission = Admission(
            self._schedule,
            limits,
            workers=workers,
            max_batch_tokens=max_batch_tokens,
            max_queue_tokens=max_queue_tokens,
        )
        self._executor = executor
        self._max_batch_tokens = max_batch_tokens
        self._computes_padding, self._mixes_lengths = computes_padding, mixes_lengths
        self._metrics = metrics
        self._begin_worker, self._use_threads = begin, use_threads
        self._on_pass, self._on_lost = on_pass, on_lost
        self._run: dict[PathName, Callable[[Sequence[Any]], Sequence[Any]]] = {
            FUSED: classify,
            EXPLICIT: explain,
            GRADIENT: lambda jobs: [job.run() for job in jobs],
        }
        self._cores = workers if cores is None else cores
        self._worth_sharing = worth_sharing
        # Where little work is worth sharing, two threads share it.
        self._fewest = max(1, min(_FEWEST_TOKENS_PER_THREAD, worth_sharing // 2))
        self._busy: set[Worker] = set()
        self._requests: dict[Request, float] = {}  # since when; the oldest is first
        self._unread = 0  # let in during this round of the event loop, and not yet here
        self._loop = asyncio.get_running_loop()
        self.closed = False
        metrics.queue_tokens.set_function(lambda: float(self._schedule.tokens))
        metrics.queue_requests.set_function(lambda: float(len(self._requests)))
        metrics.queue_oldest_seconds.set_function(self._oldest)
        self._passes = 0
        self._only = (None,) * workers + (EXTRA_WORKERS if extra else ())
        positions = range(len(self._only))
        # After how many passes each stopped lately.
        self._stops: list[deque[int]] = [deque(maxlen=MOST_STOPS) for _ in positions]
        self._threads = [
            self._loop.run_in_executor(executor, self._work, position) for position in positions
        ]

    async def predict(
        self,
        encodings: Sequence[Encoding],
        *,
        deadline: float = math.inf,
        caller: ClientId = ANYONE,
    ) -> list[Prediction | InternalError]:
        """Returns a prediction for each text, or the error of a text that fails by itself.

        Args:
            encodings: its texts, at least one.
            deadline: when the answer is due, by the event loop's clock.

        Raises:
            TooMuchWorkError: an idle replica could not answer in time either.
            OverloadedError: the queue has no room for all texts, or would take too long.
            RateLimitedError: the client has used up its tokens.
            InternalError: a forward pass failed.
            DrainingError: the service is shutting down.
        """
        inputs = [(encoding, (encoding,)) for encoding in encodings]
        return await self._wait(FUSED, inputs, deadline, caller)

    async def predict_until(
        self, encodings: Sequence[Encoding], until: float, *, caller: ClientId = ANYONE
    ) -> list[Prediction | InternalError | None]:
        """Predicts as many of the texts, maybe none, as it can; the others have None.

        It ends at `until`, by the event loop's clock, which admission takes as the deadline.
        """
        if not encodings:
            return []
        inputs = [(encoding, (encoding,)) for encoding in encodings]
        return await self._wait(FUSED, inputs, until, caller, is_whole=False)

    async def explain(
        self,
        options: Sequence[AttentionOptions],
        finish: Callable[[int, Explanation], Result],
        *,
        numbers: int = 0,
        deadline: float = math.inf,
        caller: ClientId = ANYONE,
    ) -> list[Result]:
        """Returns a finished explanation for each text of a request; see `predict`.

        Args:
            options: its texts with their layers and heads, at least one.
            finish: makes a result from a text's index and explanation; runs on a worker.
            numbers: how many numbers `finish` writes for all texts together.
        """
        inputs = [(each, (each.encoding,)) for each in options]
        return await self._wait(
            EXPLICIT, inputs, deadline, caller, finish=finish, more=numbers / _NUMBERS_PER_TOKEN
        )

    async def run(
        self,
        jobs: Sequence[Job[Result]],
        *,
        deadline: float = math.inf,
        caller: ClientId = ANYONE,
    ) -> list[Result]:
        """Returns a result for each job of a request, at least one; see `predict`.

        Several workers run them at once, and other requests go in between.
        """
        inputs = [(job, job.encodings) for job in jobs]
        return await self._wait(GRADIENT, inputs, deadline, caller)

    async def _wait(
        self,
        path: PathName,
        inputs: Sequence[tuple[object, Sequence[Encoding]]],
        deadline: float,
        caller: ClientId,
        *,
        finish: Callable[[int, Any], object] | None = None,
        more: float = 0.0,
        is_whole: bool = True,
    ) -> list[Any]:
        """Queues a request and waits for its results; `more` are tokens' worth of other work."""
        future = self._loop.create_future()
        request = Request(path, caller, future, len(inputs), finish, CURRENT.get())
        items = [
            Item(request, index, value, encodings)
            for index, (value, encodings) in enumerate(inputs)
        ]
        request.tokens = sum(item.tokens for item in items)
        request.cost = self._limits.cost_of(path) * (1 + more / max(request.tokens, 1))
        if path != GRADIENT:
            # Neighbours of similar length share a batch, so that little of it is padding.
            items.sort(key=lambda item: item.tokens)
        now = self._loop.time()
        self._admit(request, items, deadline - now)
        self._requests[request] = now
        answered = False
        try:
            if is_whole:
                await future
            else:
                await asyncio.wait([future], timeout=max(deadline - self._loop.time(), 0.0))
                if future.done():
                    future.result()
            answered = future.done()
            return [request.results.get(index) for index in range(len(inputs))]
        finally:
            future.cancel()
            del self._requests[request]
            with self._changed:
                self._admission.leave(request, self._schedule.drop(request), answered=answered)

    def _admit(self, request: Request, items: Sequence[Item], seconds: float) -> None:
        """Queues a request with some seconds until its deadline, or refuses it."""
        with self._changed:
            if self.closed:
                raise DrainingError(DRAINED, retry_after=1)
            self._admission.admit(request, seconds)
            if request.trace is not None:
                request.trace.begin_waiting()
            # Late heavy work must not go first, so gradients are never urgent.
            if request.path != GRADIENT:
                request.urgent_at = time.monotonic() + _URGENT_SHARE * seconds
            self._schedule.add(request, items)
            self._changed.notify(len(items))
            self._wake_extra()

    def check_room(self, client: Hashable, route: str, seconds: float) -> None:
        """Refuses a request before it is read, if one of the usual size would be refused.

        Raises:
            OverloadedError: there is no room.
        """
        now = time.monotonic()
        with self._changed:
            self._admission.check_room(client, route, seconds, now=now, ahead=self._unread)
        if not self._unread:
            self._loop.call_soon(setattr, self, "_unread", 0)  # they are in the queue by then
        self._unread += 1

    def work_seconds(self) -> float:
        """Returns how many seconds the admitted work takes; 0 if idle."""
        with self._changed:
            return self._admission.seconds

    def longest_pass(self) -> float:
        """Returns for how many seconds the oldest running pass has been running; 0 if idle."""
        with self._changed:
            began = [worker.batch.began for worker in self._busy if worker.batch is not None]
            return time.monotonic() - min(began) if began else 0.0

    def stop(self) -> None:
        """Hands out no more batches, and admits nothing."""
        with self._changed:
            self.closed = True
            self._changed.notify_all()
            self._extra_wanted.notify_all()

    def fail_all(self, error: Exception) -> None:
        """Answers all waiting requests with an error."""
        for request in list(self._requests):
            request.fail(error)

    def _next_batch(self, worker: Worker) -> Batch | None:
        """Waits for a batch that a worker may take; returns None after `stop`."""
        wanted = self._changed if worker.only is None else self._extra_wanted
        worker.free_since = time.monotonic()
        with self._changed:
            while not self.closed:
                if items := self._take(worker):
                    batch = worker.batch = Batch(items, self._run[items[0].request.path])
                    self._busy.add(worker)
                    self._begin(worker, batch)
                    return batch
                wanted.wait()
                worker.free_since = time.monotonic()
        return None

    def _put_down(self, worker: Worker, *, computed: bool = False) -> None:
        """Notes that the pass of a worker ended, however far it came."""
        with self._changed:
            batch = worker.batch
            if batch is None or worker not in self._busy:
                return
            # Of a pass that several threads computed, the time says nothing.
            if computed and worker.threads == 1 and batch.work:
                seconds = time.monotonic() - worker.free_since
                self._admission.rate.note(batch.work, seconds, full=worker.is_full)
            for item in batch.items:
                self._admission.note_done(item)
            self._busy.remove(worker)

    def _take(self, worker: Worker) -> list[Item]:
        now = time.monotonic()
        if worker.only is not None:
            return self._schedule.take(now=now, may_take=partial(self._may_take, worker.only))
        if self._mixes_lengths:
            # What comes during a pass goes together in the next, unless it fills half of one, or
            # that pass does not end.
            passes = [other.batch for other in self._busy if other.batch is not None]
            paths = [each.path for each in passes if now < each.began + _LONG_SECONDS]
            waits = FUSED in paths and self._schedule.tokens < self._max_batch_tokens // 2
            return self._schedule.take(now=now, may_take=lambda weight: weight > 0 or not waits)
        # The workers share the waiting texts, so that none is left without work.
        share = max(self._schedule.tokens // self._cores, WORTH_SHARING_TOKENS)
        return self._schedule.take(share, now=now)

    def _begin(self, worker: Worker, batch: Batch) -> None:
        """Chooses the threads of a batch that an ordinary worker took, and wakes extra workers."""
        if worker.only is not None:
            return
        worker.is_full = self._schedule.tokens > 0
        others = [other for other in self._busy if other.only is None and other is not worker]
        is_alone = not others and not worker.is_full and batch.tokens >= self._worth_sharing
        worker.threads = min(self._cores, batch.tokens // self._fewest) if is_alone else 1
        self._wake_extra()

    def _may_take(self, only: Weight, weight: Weight) -> bool:
        """Whether an extra worker may take a request of a weight: heavier ones keep all cores."""
        return weight is only and self._count_heavier(only) >= self._cores

    def _count_heavier(self, only: Weight) -> int:
        batches = [worker.batch for worker in self._busy if worker.only is None]
        return sum(batch is not None and batch.weight > only for batch in batches)

    def _wake_extra(self) -> None:
        if self._count_heavier(Weight.LIGHT) >= self._cores and any(
            self._schedule.waits(partial(self._may_take, only)) for only in EXTRA_WORKERS
        ):
            self._extra_wanted.notify_all()

    def _oldest(self) -> float:
        # In one step, because metrics are rendered on another thread.
        since = next(iter(list(self._requests.values())), None)
        return 0.0 if since is None else self._loop.time() - since

    async def close(self, patience: float | None = None) -> bool:
        """Refuses all waiting requests; returns whether all passes ended in `patience` seconds."""
        self.stop()
        _, stuck = await asyncio.wait(self._threads, timeout=patience)
        await asyncio.sleep(0)  # the results of the last passes are delivered first
        self.fail_all(DrainingError(_STUCK if stuck else DRAINED, retry_after=1))
        return not stuck

    def _work(self, position: int) -> None:
        """Runs a worker on a thread of the executor, and has it restarted if it stops."""
        worker = Worker(self._only[position])
        try:
            self._begin_worker(worker.only)
            self._run_batches(worker)
        except BaseException as error:  # nothing else would notice
            try:
                self._put_down(worker)
                with self._changed:  # another takes what this one was woken for
                    self._changed.notify()
                    self._extra_wanted.notify_all()
            finally:
                self._loop.call_soon_threadsafe(self._replace, position, worker.batch, error)

    def _run_batches(self, worker: Worker) -> None:
        """Runs one batch after the other until the queue is closed."""
        while (batch := self._next_batch(worker)) is not None:
            results: Sequence[object] = ()
            failed: Exception | None = None
            try:
                # Each time: torch, if it was imported meanwhile, knows nothing of it.
                self._use_threads(worker.threads)
                results = batch.compute(self._loop.call_soon_threadsafe)
            except Exception as error:  # every request gets an answer, whatever a pass raises
                failed = error
            seconds = time.monotonic() - batch.began
            self._put_down(worker, computed=failed is None)
            self._loop.call_soon_threadsafe(self._report, batch, results, failed, seconds)
            worker.batch = None
            del batch, results, failed  # the next may be long in coming

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
                    "texts failed alone", exc_info=first, extra={**counts, **safe_message(first)}
                )
            if batch.encodings:
                if error is not None:
                    self._metrics.forward_failures.inc()
                else:
                    self._metrics.observe_pass(
                        batch.encodings,
                        seconds,
                        batch.path,
                        max_tokens=self._max_batch_tokens,
                        computes_padding=self._computes_padding and batch.path != GRADIENT,
                    )
                self._on_pass(batch.path, batch.began, error)
        except Exception as own:  # else its items could wait for ever
            logger.exception("the report of a pass failed")
            batch.fail(failure(own))

    def _replace(self, position: int, batch: Batch | None, error: BaseException) -> None:
        """Answers the requests of a worker that stopped, and starts another in its place."""
        logger.error(
            "worker thread stopped unexpectedly; restarting it",
            exc_info=error,
            extra=safe_message(error),
        )
        if batch is not None:
            batch.fail(failure(error))
        else:  # it may have taken any text from the queue
            self.fail_all(failure(error))
        stops = self._stops[position]
        stops.append(self._passes)
        if len(stops) == MOST_STOPS and self._passes - stops[0] < WITHIN_PASSES:
            self._lose()
        else:
            # Those who were just answered leave the queue first.
            self._loop.call_soon(self._start, position)

    def _start(self, position: int) -> None:
        if self.closed:
            return
        try:
            self._threads[position] = self._loop.run_in_executor(
                self._executor, self._work, position
            )
        except RuntimeError:  # the executor is shut down, or has no thread to give
            logger.exception("worker thread cannot be restarted")
            self._lose()

    def _lose(self) -> None:
        if not self.closed:
            self._on_lost()
