"""Forms batches of waiting texts, runs them, and answers each request in its own order.

A request is admitted by its tokens and split over as many batches as it needs. Forward passes run
on lanes, which are threads of their own, never on the event loop.

- A lane takes its next batch itself, so that it does not wait for a busy event loop.
- While heavy passes keep all cores busy, more lanes compute light requests beside them.
- Several lanes with one core each get more out of a processor than one pass over all cores, whose
  threads wait for each other a hundred times. On an idle replica, one text uses several cores.
- Nobody waits for ever. A full queue, a failed pass, a lane that ends and shutdown answer every
  waiter. A lane that ends unasked is replaced; one that ends again and again takes all with it.
- A cancelled waiter (deadline passed, client gone) leaves the queue at once. A request that could
  not be answered before its deadline is not admitted. No client's work counts against another's.
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
from service.inference.admission import ClientId, RequestCost, fewer_tokens
from service.inference.cost import Cost
from service.inference.supervision import Ends
from service.inference.waiting import DRAINED, Queue, WorkerState
from service.inference.work_items import (
    Job,
    PendingRequest,
    ScheduledBatch,
    Task,
    WorkItem,
    failure,
)
from service.inference.workers import EXTRA_LANES, WORTH_SHARING_TOKENS, Lane
from service.logs import safe_fault
from service.metrics import EXPLICIT, FUSED, GRADIENT, Metrics
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
            error of its own for each. All lanes may call it at once.
        explain: the same with attention.
        executor: has a thread for each worker, which only runs passes until `close`.
        workers: passes in progress at once, each on a lane.
        cores: how many of them compute at once; the others prepare and answer. None: all.
        extra: whether the executor has threads for `EXTRA_LANES` too.
        worth_sharing: the fewest tokens for which a pass that is alone uses several threads.
        begin_lane: called on the thread of a lane when it begins.
        use_threads: called before a pass with its number of threads, if that changes.
        max_batch_tokens: limit of `longest * count` of a batch; a longer text goes alone.
        max_queue_tokens: tokens that may wait.
        computes_padding: whether padding goes through the network too; for the metrics.
        costs: of a token of each path; what is known before the first pass. None: nothing.
        metrics: counts passes and the queue.
        on_pass: called after each pass with its path, when it began, and its error or None.
        on_lost: called when a lane ends and cannot be replaced; nothing is computed any more.
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
        begin_lane: Callable[[Lane], None] = lambda _: None,
        use_threads: Callable[[int], None] = lambda _: None,
        max_batch_tokens: int,
        max_queue_tokens: int,
        computes_padding: bool = True,
        costs: dict[PathName, Cost] | None = None,
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
        self._begin_lane = begin_lane
        self._use_threads = use_threads
        self._queue = Queue(
            lanes=workers,
            cores=workers if cores is None else cores,
            worth_sharing=worth_sharing,
            max_batch_tokens=max_batch_tokens,
            max_queue_tokens=max_queue_tokens,
            costs=costs,
        )
        self._max_batch_tokens = max_batch_tokens
        self._computes_padding = computes_padding
        self._waiters: dict[PendingRequest[Any], float] = {}  # since when; the oldest is first
        metrics.queue_tokens.set_function(lambda: float(self._queue.tokens))
        metrics.queue_requests.set_function(lambda: float(len(self._waiters)))
        metrics.queue_oldest_seconds.set_function(self._oldest)
        self._loop = asyncio.get_running_loop()
        self._executor = executor
        self._passes = 0
        self._kinds = [Lane.ORDINARY] * workers + (list(EXTRA_LANES) if extra else [])
        places = range(len(self._kinds))
        self._ends = [Ends() for _ in places]
        self._workers = [
            self._loop.run_in_executor(executor, self._work, place) for place in places
        ]

    def work_seconds(self) -> float:
        """Returns how many seconds the admitted work takes; 0 if idle."""
        return self._queue.work_seconds()

    def longest_pass(self) -> float:
        """Returns for how many seconds the oldest running pass has been running; 0 if idle."""
        return self._queue.longest_pass()

    def check_room(self, caller: ClientId, deadline: float, *, ahead: int = 0) -> None:
        """Refuses a request before it is read, if one of the usual size has no room.

        Args:
            caller: who sends it.
            deadline: of the request, by the event loop's clock.
            ahead: admitted requests that are not queued yet.

        Raises:
            OverloadedError: there is no room.
        """
        now = self._loop.time()
        self._queue.check_room(caller, deadline - now, now=now, ahead=ahead)

    async def predict(
        self,
        encodings: Sequence[Encoding],
        *,
        deadline: float = math.inf,
        caller: ClientId = ANYONE,
    ) -> list[Prediction | InternalError]:
        """Waits for the predictions of one request.

        Args:
            encodings: its texts, at least one.
            deadline: of the answer, by the event loop's clock.
            caller: who asks.

        Returns:
            For each text, in order, its prediction, or the error of a text that fails alone.

        Raises:
            InvalidRequestError: an idle replica could not answer in time either.
            OverloadedError: the queue has no room for all texts, or would take too long.
            InternalError: a forward pass failed.
            DrainingError: the service is shutting down.
        """
        items = [(encoding, (encoding,)) for encoding in encodings]
        return await self._wait(self._classify, items, deadline, caller)

    async def explain(
        self,
        questions: Sequence[AttentionOptions],
        finish: Callable[[int, Explanation], Result],
        *,
        numbers: int = 0,
        deadline: float = math.inf,
        caller: ClientId = ANYONE,
    ) -> list[Result]:
        """Waits for the explanations of one request.

        Args:
            questions: its texts with their layers and heads, at least one.
            finish: makes a result from a text's index and explanation; runs on a lane.
            numbers: that `finish` writes for all texts together.
            deadline: of the answer, by the event loop's clock.
            caller: who asks.

        Returns:
            A result for each text, in order.

        Raises:
            InvalidRequestError: an idle replica could not answer in time either.
            OverloadedError: the queue has no room for all texts, or would take too long.
            InternalError: a forward pass, one of the texts or `finish` failed.
            DrainingError: the service is shutting down.
        """
        items = [(question, (question.encoding,)) for question in questions]
        return await self._wait(
            self._explain,
            items,
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
        advice: Callable[[int], str] = fewer_tokens,
    ) -> list[Result]:
        """Runs the jobs of one request on lanes; other requests go in between.

        Jobs are never urgent: late heavy work must not go before everything else.

        Args:
            jobs: at least one; several lanes run them at once.
            deadline: of the results, by the event loop's clock.
            caller: who asks.
            advice: says what to ask for instead of too much, given the tokens that fit.

        Returns:
            A result for each job, in order.

        Raises:
            InvalidRequestError: an idle replica could not answer in time either.
            OverloadedError: the queue has no room for all jobs, or would take too long.
            InternalError: a job failed; its error is the cause.
            DrainingError: the service is shutting down.
        """
        items = [(job, job.encodings) for job in jobs]
        return await self._wait(self._run_jobs, items, deadline, caller, advice=advice)

    async def close(self, patience: float | None = None) -> bool:
        """Waits for the running passes and refuses all waiting requests.

        Args:
            patience: seconds to wait for a pass; None: as long as it takes.

        Returns:
            Whether all passes ended.
        """
        self._queue.close()
        _, stuck = await asyncio.wait(self._workers, timeout=patience)
        await asyncio.sleep(0)  # the results of the last passes are delivered first
        for waiter in list(self._waiters):
            waiter.fail(DrainingError(_STUCK if stuck else DRAINED, retry_after=1))
        return not stuck

    def give_up(self, reason: str) -> None:
        """Answers all who wait, and computes nothing any more.

        Args:
            reason: why, and what to do.
        """
        self._queue.close()
        for waiter in list(self._waiters):
            waiter.fail(NotReadyError(reason, retry_after=1))

    async def _wait(
        self,
        task: Task,
        items: Sequence[tuple[object, Sequence[Encoding]]],
        deadline: float,
        caller: ClientId,
        *,
        finish: Callable[[int, Any], object] | None = None,
        extra: float = 0.0,
        advice: Callable[[int], str] = fewer_tokens,
    ) -> list[Any]:
        waiter: PendingRequest[Any] = PendingRequest(
            self._loop.create_future(), len(items), caller.client, trace=CURRENT.get()
        )
        entries = [
            WorkItem(task, waiter, index, item, encodings, finish)
            for index, (item, encodings) in enumerate(items)
        ]
        sized = [(entry, entry.tokens) for entry in entries]
        is_job = task is self._run_jobs
        if not is_job:
            # Neighbours of similar length share a batch, so that little of it is padding.
            sized.sort(key=lambda each: each[1])
        tokens = sum(count for _, count in sized)
        waiter.cost += extra / max(tokens, 1)
        waiter.predictions = waiter.cost * self._queue.times_a_prediction(task.path)
        work = RequestCost(tokens, tokens * waiter.predictions, advice)
        now = self._loop.time()
        flow = self._queue.admit(sized, caller, work, deadline - now, is_job=is_job)
        self._waiters[waiter] = now
        answered = False
        try:
            results = await waiter.future
            answered = True
            return results
        finally:
            del self._waiters[waiter]
            self._queue.leave(waiter, flow, caller, work, answered=answered)

    def _oldest(self) -> float:
        """Returns for how many seconds the oldest request has been waiting; 0 if none waits."""
        since = next(iter(self._waiters.values()), None)
        return 0.0 if since is None else self._loop.time() - since

    def _work(self, place: int) -> None:
        """Runs a lane on a thread of the executor, and has it replaced if it ends unasked."""
        hand = WorkerState(threading.get_ident(), self._kinds[place])
        try:
            self._begin_lane(hand.kind)
            self._lane(hand)
        except BaseException as error:  # nothing else would notice
            try:
                self._queue.put_down(hand)
                self._queue.wake_another()
            finally:
                self._loop.call_soon_threadsafe(self._replace, place, hand.batch, error)

    def _lane(self, hand: WorkerState) -> None:
        """Runs one batch after the other until `close`.

        Args:
            hand: holds the batch until its report is sent.
        """
        threads_before = 0
        while (batch := self._queue.next_batch(hand)) is not None:
            try:
                if hand.threads != threads_before:
                    self._use_threads(hand.threads)
                    threads_before = hand.threads
                deliver = batch.compute(self._loop.call_soon_threadsafe)
            except Exception as error:  # every waiter gets an answer, whatever a pass raises
                report = partial(self._failed, batch, error)
            else:
                seconds = self._queue.seconds_of(hand)
                report = partial(self._succeeded, batch, deliver, seconds)
                self._queue.note_cost(hand)
            self._queue.put_down(hand)
            self._loop.call_soon_threadsafe(self._report, batch, report)
            hand.batch = None

    def _report(self, batch: ScheduledBatch, report: Callable[[], None]) -> None:
        self._passes += 1
        try:
            report()
        except Exception as error:  # else its entries could wait for ever
            logger.exception("the report of a pass failed")
            batch.fail(failure(error))

    def _replace(self, place: int, batch: ScheduledBatch | None, error: BaseException) -> None:
        """Answers those whom a lane left behind, and starts another in its place."""
        logger.error(
            "worker thread stopped unexpectedly; restarting it",
            exc_info=error,
            extra=safe_fault(error),
        )
        if batch is not None:
            batch.fail(failure(error))
        else:  # it may have taken any text from the queue
            for waiter in list(self._waiters):
                waiter.fail(failure(error))
        if not self._ends[place].note(self._passes):
            self._lose()
        else:
            # Those who were just answered leave the queue first.
            self._loop.call_soon(self._start, place)

    def _start(self, place: int) -> None:
        if self._queue.closed:
            return
        try:
            work = self._loop.run_in_executor(self._executor, self._work, place)
        except RuntimeError:  # the executor is shut down, or has no thread to give
            logger.exception("worker thread cannot be restarted")
            self._lose()
        else:
            self._workers[place] = work

    def _lose(self) -> None:
        if not self._queue.closed:
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
            counts = {"texts": len(batch.faults), "together": len(batch.entries)}
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
