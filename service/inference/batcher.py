"""Forms batches of waiting texts, runs them, and answers each request in its own order.

A request is admitted by its tokens and split over as many batches as it needs. Forward passes run
on lanes, which are threads of their own, never on the event loop.

- A lane takes its next batch itself, so that it does not wait for a busy event loop.
- Several lanes with one core each get more out of a processor than one pass over all cores, whose
  threads wait for each other a hundred times. On an idle replica, one text uses several cores.
- Nobody waits for ever. A full queue, a failed pass and shutdown answer every waiter.
- A cancelled waiter (deadline passed, client gone) leaves the queue at once. A request that could
  not be answered before its deadline is not admitted.
"""

import asyncio
import math
import threading
import time
from collections.abc import Callable, Hashable, Sequence
from concurrent.futures import Executor
from functools import partial
from typing import Any, TypeVar

from model import Encoding, Explanation, Prediction, Question
from service.errors import INTERNAL_DETAIL, DrainingError, InternalError
from service.inference.admission import Admission
from service.inference.lanes import SHORT_COME_WITHIN, WORTH_SHARING_TOKENS, Lanes
from service.inference.scheduler import Flow, Schedule
from service.inference.work import Entry, Job, Pass, Task, Waiter
from service.metrics import EXPLICIT, FUSED, GRADIENT, Metrics

Result = TypeVar("Result")

# After this share of its time, a request is urgent.
_URGENT_SHARE = 0.4

_DRAINED = "The service is shutting down: send the request to another replica, or again later."
_STUCK = "The forward pass does not end: send the request to another replica."


class Batcher:
    """The queue before the network: batches within a token budget, and their answers.

    Args:
        classify: runs one forward pass over the texts of a batch. All lanes may call it at once.
        explain: the same with attention.
        executor: has a thread for each worker, which only runs passes until `close`.
        workers: passes in progress at once, each on a lane.
        cores: how many of them compute at once; the others prepare and answer. None: all.
        worth_sharing: the fewest tokens for which a pass that is alone uses several threads.
        use_threads: called before a pass with its number of threads, if that changes.
        max_batch_tokens: limit of `longest * count` of a batch; a longer text goes alone.
        max_queue_tokens: tokens that may wait.
        metrics: counts passes and the queue.
        on_pass: called after each pass with its error, or None.
    """

    def __init__(
        self,
        classify: Callable[[Sequence[Encoding]], list[Prediction]],
        explain: Callable[[Sequence[Question]], list[Explanation]],
        *,
        executor: Executor,
        workers: int = 1,
        cores: int | None = None,
        worth_sharing: int = WORTH_SHARING_TOKENS,
        use_threads: Callable[[int], None] = lambda _: None,
        max_batch_tokens: int,
        max_queue_tokens: int,
        metrics: Metrics,
        on_pass: Callable[[Exception | None], None],
    ) -> None:
        self._classify = Task(FUSED, classify)
        self._explain = Task(EXPLICIT, explain)
        self._run_jobs = Task(GRADIENT, lambda jobs: [job.run() for job in jobs])
        self._metrics = metrics
        self._on_pass = on_pass
        self._use_threads = use_threads
        # Guards everything below, which the event loop and all lanes use.
        self._changed = threading.Condition()
        self._schedule: Schedule[Entry] = Schedule(max_batch_tokens)
        self._closed = False
        self._lanes = Lanes(workers if cores is None else cores, worth_sharing=worth_sharing)
        self._admission = Admission(max_queue_tokens)
        self._started: dict[int, float] = {}  # when the pass of each busy lane started
        self._computing = 0  # tokens in these passes
        self._waiters: set[Waiter[Any]] = set()
        metrics.queue_tokens.set_function(lambda: float(self._schedule.tokens))
        metrics.queue_requests.set_function(lambda: float(len(self._waiters)))
        self._loop = asyncio.get_running_loop()
        self._workers = [self._loop.run_in_executor(executor, self._lane) for _ in range(workers)]

    def longest_pass(self) -> float:
        """Returns for how many seconds the oldest running pass has been running; 0 if idle."""
        with self._changed:
            return time.monotonic() - min(self._started.values()) if self._started else 0.0

    def check_room(self, deadline: float, *, ahead: int = 0) -> None:
        """Refuses a request before it is read, if one of average size has no room.

        Args:
            deadline: of the request, by the event loop's clock.
            ahead: admitted requests that are not queued yet.

        Raises:
            OverloadedError: there is no room.
        """
        seconds = deadline - self._loop.time()
        self._admission.check_room(
            waiting=self._schedule.tokens, computing=self._computing, ahead=ahead, seconds=seconds
        )

    async def predict(
        self, encodings: Sequence[Encoding], *, deadline: float = math.inf
    ) -> list[Prediction]:
        """Waits for the predictions of one request.

        Args:
            encodings: its texts, at least one.
            deadline: of the answer, by the event loop's clock.

        Returns:
            A prediction for each text, in order.

        Raises:
            OverloadedError: the queue has no room for all texts, or would take too long.
            InternalError: a forward pass failed.
            DrainingError: the service is shutting down.
        """
        items = [(encoding, (encoding,)) for encoding in encodings]
        return await self._wait(self._classify, items, deadline)

    async def explain(
        self,
        questions: Sequence[Question],
        finish: Callable[[int, Explanation], Result],
        *,
        deadline: float = math.inf,
    ) -> list[Result]:
        """Waits for the explanations of one request.

        Args:
            questions: its texts with their layers and heads, at least one.
            finish: makes a result from a text's index and explanation; runs on a lane.
            deadline: of the answer, by the event loop's clock.

        Returns:
            A result for each text, in order.

        Raises:
            OverloadedError: the queue has no room for all texts, or would take too long.
            InternalError: a forward pass or `finish` failed.
            DrainingError: the service is shutting down.
        """
        items = [(question, (question.encoding,)) for question in questions]
        return await self._wait(self._explain, items, deadline, finish)

    async def run(self, jobs: Sequence[Job[Result]], *, deadline: float = math.inf) -> list[Result]:
        """Runs the jobs of one request on lanes; other requests go in between.

        Jobs are never urgent: late heavy work must not go before everything else.

        Args:
            jobs: at least one; several lanes run them at once.
            deadline: of the results, by the event loop's clock.

        Returns:
            A result for each job, in order.

        Raises:
            OverloadedError: the queue has no room for all jobs, or would take too long.
            InternalError: a job failed; its error is the cause.
            DrainingError: the service is shutting down.
        """
        return await self._wait(self._run_jobs, [(job, job.encodings) for job in jobs], deadline)

    async def close(self, patience: float | None = None) -> bool:
        """Waits for the running passes and refuses all waiting requests.

        Args:
            patience: seconds to wait for a pass; None: as long as it takes.

        Returns:
            Whether all passes ended.
        """
        with self._changed:
            self._closed = True
            self._changed.notify_all()
        _, stuck = await asyncio.wait(self._workers, timeout=patience)
        await asyncio.sleep(0)  # the results of the last passes are delivered first
        for waiter in list(self._waiters):
            waiter.fail(DrainingError(_STUCK if stuck else _DRAINED, retry_after=1))
        return not stuck

    async def _wait(
        self,
        task: Task,
        items: Sequence[tuple[object, Sequence[Encoding]]],
        deadline: float,
        finish: Callable[[int, Any], object] | None = None,
    ) -> list[Any]:
        waiter: Waiter[Any] = Waiter(self._loop.create_future(), len(items))
        entries = [
            Entry(task, waiter, index, item, encodings, finish)
            for index, (item, encodings) in enumerate(items)
        ]
        sized = [(entry, entry.tokens) for entry in entries]
        is_job = task is self._run_jobs
        # Jobs of two requests do not share a pass.
        kind: Hashable = waiter if is_job else task
        if not is_job:
            # Neighbours of similar length share a batch, so that little of it is padding.
            sized.sort(key=lambda each: each[1])
        flow = self._admit(sized, kind, deadline - self._loop.time(), urgent=not is_job)
        self._waiters.add(waiter)
        try:
            return await waiter.future
        finally:
            self._waiters.discard(waiter)
            if flow.waiting_texts:
                with self._changed:
                    self._schedule.drop(flow)

    def _admit(
        self, entries: Sequence[tuple[Entry, int]], kind: Hashable, seconds: float, *, urgent: bool
    ) -> Flow:
        tokens = sum(count for _, count in entries)
        with self._changed:
            if self._closed:
                raise DrainingError(_DRAINED, retry_after=1)
            waiting, computing = self._schedule.tokens, self._computing
            self._admission.check(tokens, waiting=waiting, computing=computing, seconds=seconds)
            now = time.monotonic()
            urgent_at = now + _URGENT_SHARE * seconds if urgent else math.inf
            flow = self._schedule.add(entries, kind=kind, urgent_at=urgent_at)
            self._lanes.note_arrival((count for _, count in entries), now)
            self._changed.notify(min(len(entries), len(self._workers)))
            return flow

    def _lane(self) -> None:
        """Runs one batch after the other on a thread of the executor, until `close`."""
        lane = threading.get_ident()
        threads_before = 0
        while (taken := self._next_batch(lane)) is not None:
            batch, tokens, threads, is_long = taken
            try:
                if threads != threads_before:
                    self._use_threads(threads)
                    threads_before = threads
                deliver = batch.compute(self._loop.call_soon_threadsafe)
            except Exception as error:  # every waiter gets an answer, whatever a pass raises
                report = partial(self._failed, batch, error)
            else:
                seconds = time.monotonic() - self._started[lane]
                report = partial(self._succeeded, batch, deliver, seconds)
            with self._changed:
                del self._started[lane]
                self._computing -= tokens
                if tokens:
                    now, waiting = time.monotonic(), self._schedule.tokens > 0
                    self._admission.throughput.note(now, tokens=tokens, waiting=waiting)
                self._lanes.end(is_long=is_long)
                self._changed.notify()  # a lane that had to skip long texts may take one now
            self._loop.call_soon_threadsafe(report)

    def _next_batch(self, lane: int) -> tuple[Pass, int, int, bool] | None:
        """Waits for a batch; returns it, its tokens, its threads, and whether it is long.

        Returns None after `close`.
        """
        with self._changed:
            while not self._closed:
                waiting = self._schedule.tokens
                now = time.monotonic()
                # The lanes share the waiting texts, so that none is left without work.
                share = max(waiting // self._lanes.count, WORTH_SHARING_TOKENS)
                longest = self._lanes.longest(now)
                if entries := self._schedule.take(share, longest=longest, now=now):
                    self._started[lane] = time.monotonic()
                    left = self._schedule.tokens
                    tokens = waiting - left
                    self._computing += tokens
                    threads, is_long = self._lanes.begin(tokens, len(entries), is_all=not left)
                    return Pass(entries), tokens, threads, is_long
                self._changed.wait(SHORT_COME_WITHIN if waiting else None)
        return None

    def _failed(self, batch: Pass, error: Exception) -> None:
        failure = InternalError(INTERNAL_DETAIL)
        failure.__cause__ = error
        batch.fail(failure)
        if batch.encodings:
            self._metrics.forward_failures.inc()
            self._on_pass(error)

    def _succeeded(self, batch: Pass, deliver: Callable[[], None], seconds: float) -> None:
        deliver()
        if encodings := batch.encodings:
            self._metrics.observe_pass(encodings, seconds, batch.path)
            self._on_pass(None)
