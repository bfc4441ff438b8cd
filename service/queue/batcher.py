"""Forms batches of waiting texts, runs them on workers, and answers each request in its own order.

A worker takes its next batch itself, so that it does not wait for a busy event loop. Nobody waits
for ever: a full queue, a failed pass, a worker that stops and shutdown answer every request.
"""

import asyncio
import logging
import math
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import Executor
from functools import partial
from typing import Any, TypeVar

from model import AttentionOptions, Encoding, Explanation, Prediction
from model.predictor import PathName
from service.errors import DrainingError, InternalError, NotReadyError
from service.logs import safe_fault
from service.metrics import EXPLICIT, FUSED, GRADIENT, Metrics
from service.queue.admission import ClientId, Cost, RequestCost
from service.queue.pace import NO_LIMITS, WorkLimits
from service.queue.waiting import (
    DRAINED,
    EXTRA_WORKERS,
    WORTH_SHARING_TOKENS,
    Ends,
    Queue,
    WorkerKind,
    WorkerState,
)
from service.queue.work_items import (
    Job,
    PendingRequest,
    ScheduledBatch,
    Task,
    WorkItem,
    failure,
)
from service.tracing.record import CURRENT

Result = TypeVar("Result")
logger = logging.getLogger("headlight.batcher")

ANYONE = ClientId()
# Weights of attention that are written in the time of a token.
_NUMBERS_PER_TOKEN = 1000

_STUCK = "The forward pass does not end: send the request to another replica."


class Batcher:
    """The queue before the network: batches within a token budget, and their answers.

    Args:
        classify: runs one forward pass over the texts of a batch, and returns a prediction or an
            error for each. All workers may call it at once.
        explain: the same with attention.
        executor: has a thread for each worker, which only runs passes until `close`.
        cores: how many workers compute at once; the others prepare and answer. None: all.
        extra: whether the executor has threads for `EXTRA_WORKERS` too.
        worth_sharing: the fewest tokens for which the only pass uses several threads.
        use_threads: called before a pass with its number of threads, if that changes.
        max_batch_tokens: limit of `longest * count` of a batch; a longer text goes by itself.
        limits: the most work of a request.
        on_pass: called after each pass with its path, when it began, and its error or None.
        on_lost: called when a worker cannot be restarted; nothing is computed any more.
    """

    def __init__(
        self,
        classify: Callable[[Sequence[Encoding]], Sequence[Prediction | Exception]],
        explain: Callable[[Sequence[AttentionOptions]], Sequence[Explanation | Exception]],
        *,
        executor: Executor,
        workers: int = 1,
        cores: int | None = None,
        extra: bool = False,
        worth_sharing: int = WORTH_SHARING_TOKENS,
        begin_worker: Callable[[WorkerKind], None] = lambda _: None,
        use_threads: Callable[[int], None] = lambda _: None,
        max_batch_tokens: int,
        max_queue_tokens: int,
        computes_padding: bool = True,
        costs: dict[PathName, Cost] | None = None,
        limits: WorkLimits = NO_LIMITS,
        metrics: Metrics,
        on_pass: Callable[[PathName, float, Exception | None], None],
        on_lost: Callable[[], None],
    ) -> None:
        self._classify = Task(FUSED, classify, by_item=True)
        self._explain = Task(EXPLICIT, explain)
        self._run_jobs = Task(GRADIENT, lambda jobs: [job.run() for job in jobs])
        self._metrics = metrics
        self._on_pass = on_pass
        self._on_lost = on_lost
        self._begin_worker = begin_worker
        self._use_threads = use_threads
        self.queue = Queue(
            workers=workers,
            cores=workers if cores is None else cores,
            worth_sharing=worth_sharing,
            max_batch_tokens=max_batch_tokens,
            max_queue_tokens=max_queue_tokens,
            costs=costs,
        )
        self._limits = limits
        self._max_batch_tokens = max_batch_tokens
        self._computes_padding = computes_padding
        self._requests: dict[PendingRequest[Any], float] = {}  # since when; the oldest is first
        metrics.queue_tokens.set_function(lambda: float(self.queue.tokens))
        metrics.queue_requests.set_function(lambda: float(len(self._requests)))
        metrics.queue_oldest_seconds.set_function(self._oldest)
        self._loop = asyncio.get_running_loop()
        self._executor = executor
        self._passes = 0
        self._kinds = [WorkerKind.ORDINARY] * workers + (list(EXTRA_WORKERS) if extra else [])
        places = range(len(self._kinds))
        self._ends = [Ends() for _ in places]
        self._workers = [
            self._loop.run_in_executor(executor, self._work, place) for place in places
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
            caller: who asks.

        Raises:
            TooMuchWorkError: an idle replica could not answer in time either.
            OverloadedError: the queue has no room for all texts, or would take too long.
            InternalError: a forward pass failed.
            DrainingError: the service is shutting down.
        """
        inputs = [(encoding, (encoding,)) for encoding in encodings]
        return await self._wait(self._classify, inputs, deadline, caller)

    async def predict_until(
        self,
        encodings: Sequence[Encoding],
        until: float,
        *,
        caller: ClientId = ANYONE,
    ) -> list[Prediction | InternalError | None]:
        """Predicts as many of the texts as it can until a time; the others have None.

        Args:
            encodings: its texts; may be none.
            until: by the event loop's clock; admission takes it as the deadline.
        """
        if not encodings:
            return []
        inputs = [(encoding, (encoding,)) for encoding in encodings]
        return await self._wait(self._classify, inputs, until, caller, is_whole=False)

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
            deadline: when the answer is due, by the event loop's clock.
            caller: who asks.
        """
        inputs = [(each, (each.encoding,)) for each in options]
        return await self._wait(
            self._explain,
            inputs,
            deadline,
            caller,
            finish=finish,
            extra=numbers / _NUMBERS_PER_TOKEN,
        )

    async def run(
        self,
        jobs: Sequence[Job[Result]],
        *,
        deadline: float = math.inf,
        caller: ClientId = ANYONE,
    ) -> list[Result]:
        """Returns a result for each job of a request; see `predict`. Other requests go in between.

        Args:
            jobs: at least one; several workers run them at once.
            deadline: when the results are due, by the event loop's clock.
            caller: who asks.
        """
        inputs = [(job, job.encodings) for job in jobs]
        return await self._wait(self._run_jobs, inputs, deadline, caller)

    async def close(self, patience: float | None = None) -> bool:
        """Refuses all waiting requests; returns whether all passes ended in `patience` seconds."""
        self.queue.close()
        _, stuck = await asyncio.wait(self._workers, timeout=patience)
        await asyncio.sleep(0)  # the results of the last passes are delivered first
        for request in list(self._requests):
            request.fail(DrainingError(_STUCK if stuck else DRAINED, retry_after=1))
        return not stuck

    def give_up(self, reason: str) -> None:
        """Answers all waiting requests with a reason, and stops computing."""
        self.queue.close()
        for request in list(self._requests):
            request.fail(NotReadyError(reason, retry_after=1))

    async def _wait(
        self,
        task: Task,
        inputs: Sequence[tuple[object, Sequence[Encoding]]],
        deadline: float,
        caller: ClientId,
        *,
        finish: Callable[[int, Any], object] | None = None,
        extra: float = 0.0,
        is_whole: bool = True,
    ) -> list[Any]:
        future = self._loop.create_future()
        request: PendingRequest[Any] = PendingRequest(
            future, len(inputs), caller.client, trace=CURRENT.get()
        )
        items = [
            WorkItem(task, request, index, value, encodings, finish)
            for index, (value, encodings) in enumerate(inputs)
        ]
        sized = [(item, item.tokens) for item in items]
        is_job = task is self._run_jobs
        if not is_job:
            # Neighbours of similar length share a batch, so that little of it is padding.
            sized.sort(key=lambda each: each[1])
        tokens = sum(count for _, count in sized)
        self._limits.check(task.path, tokens, caller.seconds)
        request.cost += extra / max(tokens, 1)
        request.predictions = request.cost * self.queue.times_a_prediction(task.path)
        work = RequestCost(
            tokens, tokens * request.predictions, self._limits.seconds(task.path, tokens)
        )
        now = self._loop.time()
        flow = self.queue.admit(sized, caller, work, deadline - now, is_job=is_job)
        self._requests[request] = now
        answered = False
        try:
            if is_whole or await self._is_answered(request, deadline):
                results = await request.future
                answered = True
                return results
            return [request.results.get(index) for index in range(len(items))]
        finally:
            del self._requests[request]
            self.queue.leave(request, flow, caller, work, answered=answered)

    async def _is_answered(self, request: PendingRequest[Any], until: float) -> bool:
        """Waits for a request until a time, and gives it up then; returns whether it ended."""
        await asyncio.wait([request.future], timeout=max(until - self._loop.time(), 0.0))
        return not request.future.cancel()

    def _oldest(self) -> float:
        # In one step, because metrics are rendered on another thread.
        since = next(iter(list(self._requests.values())), None)
        return 0.0 if since is None else self._loop.time() - since

    def _work(self, place: int) -> None:
        """Runs a worker on a thread of the executor, and has it restarted if it stops."""
        worker = WorkerState(threading.get_ident(), self._kinds[place])
        try:
            self._begin_worker(worker.kind)
            self._run_batches(worker)
        except BaseException as error:  # nothing else would notice
            try:
                self.queue.put_down(worker)
                self.queue.wake_another()
            finally:
                self._loop.call_soon_threadsafe(self._replace, place, worker.batch, error)

    def _run_batches(self, worker: WorkerState) -> None:
        """Runs one batch after the other until `close`."""
        threads_before = 0
        while (batch := self.queue.next_batch(worker)) is not None:
            try:
                if worker.threads != threads_before:
                    self._use_threads(worker.threads)
                    threads_before = worker.threads
                deliver = batch.compute(self._loop.call_soon_threadsafe)
            except Exception as error:  # every request gets an answer, whatever a pass raises
                report = partial(self._failed, batch, error)
            else:
                seconds = self.queue.seconds_of(worker)
                report = partial(self._succeeded, batch, deliver, seconds)
                self.queue.note_cost(worker)
            self.queue.put_down(worker)
            self._loop.call_soon_threadsafe(self._report, batch, report)
            worker.batch = None

    def _report(self, batch: ScheduledBatch, report: Callable[[], None]) -> None:
        self._passes += 1
        try:
            report()
        except Exception as error:  # else its items could wait for ever
            logger.exception("the report of a pass failed")
            batch.fail(failure(error))

    def _replace(self, place: int, batch: ScheduledBatch | None, error: BaseException) -> None:
        """Answers the requests of a worker that stopped, and starts another in its place."""
        logger.error(
            "worker thread stopped unexpectedly; restarting it",
            exc_info=error,
            extra=safe_fault(error),
        )
        if batch is not None:
            batch.fail(failure(error))
        else:  # it may have taken any text from the queue
            for request in list(self._requests):
                request.fail(failure(error))
        if not self._ends[place].note(self._passes):
            self._lose()
        else:
            # Those who were just answered leave the queue first.
            self._loop.call_soon(self._start, place)

    def _start(self, place: int) -> None:
        if self.queue.closed:
            return
        try:
            work = self._loop.run_in_executor(self._executor, self._work, place)
        except RuntimeError:  # the executor is shut down, or has no thread to give
            logger.exception("worker thread cannot be restarted")
            self._lose()
        else:
            self._workers[place] = work

    def _lose(self) -> None:
        if not self.queue.closed:
            self._on_lost()

    def _failed(self, batch: ScheduledBatch, error: Exception) -> None:
        batch.fail(failure(error))
        if batch.encodings:
            self._metrics.forward_failures.inc()
            self._on_pass(batch.path, batch.began, error)

    def _succeeded(
        self, batch: ScheduledBatch, deliver: Callable[[], None], seconds: float
    ) -> None:
        deliver()
        if batch.faults:
            first = batch.faults[0]
            counts = {"texts": len(batch.faults), "together": len(batch.items)}
            logger.error(
                "texts failed alone", exc_info=first, extra={**counts, **safe_fault(first)}
            )
        if encodings := batch.encodings:
            self._metrics.observe_pass(
                encodings,
                seconds,
                batch.path,
                max_tokens=self._max_batch_tokens,
                computes_padding=self._computes_padding and batch.path != GRADIENT,
            )
            self._on_pass(batch.path, batch.began, None)
