"""Forms batches of the texts that wait, runs them, and answers each request in its order.

A request is admitted by its tokens, waits, is spread over as many batches as it needs, and is put
together again. Forward passes run on threads of their own, the lanes, never on the event loop.

- A lane takes its next batch itself. So it does not wait for an event loop that is busy.
- Several lanes of one core each get more from a processor than one pass over all cores, whose
  threads wait for each other a hundred times. On an idle replica, one text uses several cores.
- Nobody waits for ever. A full queue, a failed pass and shutdown answer every waiter.
- A waiter that is cancelled (deadline passed, client gone) leaves the queue at once. A request that
  could not be answered before its deadline is not admitted.
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
from service.inference.scheduler import Schedule, Turn
from service.inference.work import Entry, Job, Pass, Task, Waiter
from service.metrics import EXPLICIT, FUSED, GRADIENT, Metrics

Result = TypeVar("Result")

# When this share of a request's time has gone by, its texts go first.
_SHARE_OF_PATIENCE = 0.4

_DRAINED = "The service is shutting down: send the request to another replica, or again later."
_STUCK = "The forward pass does not end: send the request to another replica."


class Batcher:
    """Forms batches within a token budget and answers those who wait.

    Args:
        classify: one forward pass over the texts of a batch; called on the executor, by as many
            threads at once as there are lanes.
        explain: the same with attention.
        executor: has a thread for each worker, which from now on until the end runs passes alone.
        workers: passes that may be in hand at once.
        cores: how many of them compute at once; workers beyond that prepare and answer meanwhile.
        worth_sharing: the fewest tokens for which a pass that is alone has several threads.
        use_threads: told before a pass how many threads it may have, if that changes.
        max_batch_tokens: `longest * count` of a batch stays within it; a longer text goes alone.
        max_queue_tokens: tokens that may wait.
        metrics: where passes and the queue are counted.
        on_pass: told after each pass whether it worked (None) or what it raised.
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
        self._run = Task(GRADIENT, lambda jobs: [job.run() for job in jobs])
        self._metrics = metrics
        self._on_pass = on_pass
        self._use_threads = use_threads
        # Guards all that follows, which the event loop and all lanes use.
        self._changed = threading.Condition()
        self._schedule: Schedule[Entry] = Schedule(max_batch_tokens)
        self._closed = False
        self._lanes = Lanes(workers if cores is None else cores, worth_sharing=worth_sharing)
        self._admission = Admission(max_queue_tokens)
        self._passes: dict[int, float] = {}
        self._computing = 0  # tokens in these passes
        self._waiters: set[Waiter[Any]] = set()
        metrics.queue_tokens.set_function(lambda: float(self._schedule.tokens))
        metrics.queue_requests.set_function(lambda: float(len(self._waiters)))
        self._loop = asyncio.get_running_loop()
        self._workers = [self._loop.run_in_executor(executor, self._work) for _ in range(workers)]

    def longest_pass(self) -> float:
        """For how many seconds the oldest of the passes in hand has been running; 0 if none is."""
        with self._changed:
            return time.monotonic() - min(self._passes.values()) if self._passes else 0.0

    def check_room(self, deadline: float, *, ahead: int = 0) -> None:
        """Refuses a request that has not been read yet, if one of the usual size has no room.

        Args:
            deadline: when an answer is of no use any more, by the event loop's clock.
            ahead: requests that were let in and do not wait yet.

        Raises:
            OverloadedError: it has none.
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
            deadline: when the answer is of no use any more, by the event loop's clock.

        Returns:
            A prediction for each, in their order.

        Raises:
            OverloadedError: the queue has no room for all of them, or would take too long.
            InternalError: the forward pass of one of them failed.
            DrainingError: the service ends.
        """
        waiter: Waiter[Prediction] = self._waiter(len(encodings))
        entries = [
            Entry(self._classify, waiter, index, encoding, (encoding,))
            for index, encoding in enumerate(encodings)
        ]
        return await self._wait(waiter, entries, kind=self._classify, deadline=deadline)

    async def explain(
        self,
        questions: Sequence[Question],
        finish: Callable[[int, Explanation], Result],
        *,
        deadline: float = math.inf,
    ) -> list[Result]:
        """Waits for passes with attention.

        Args:
            questions: the texts of one request and what of their attention is wanted.
            finish: makes the result of a text's number and its explanation; called on the
                executor, so that it keeps nobody else waiting.
            deadline: when the answer is of no use any more, by the event loop's clock.

        Returns:
            A result for each, in their order.

        Raises:
            OverloadedError: the queue has no room for them, or would take too long.
            InternalError: a pass failed, or `finish` did.
            DrainingError: the service ends.
        """
        waiter: Waiter[Result] = self._waiter(len(questions))
        entries = [
            Entry(self._explain, waiter, index, question, (question.encoding,), finish)
            for index, question in enumerate(questions)
        ]
        return await self._wait(waiter, entries, kind=self._explain, deadline=deadline)

    async def run(self, jobs: Sequence[Job[Result]], *, deadline: float = math.inf) -> list[Result]:
        """Waits until the jobs of one request have run on lanes; others get in between.

        They are never urgent: what is much work must not go before all others when it gets late.

        Args:
            jobs: at least one; on several lanes they run at once.
            deadline: when the results are of no use any more, by the event loop's clock.

        Returns:
            A result for each, in their order.

        Raises:
            OverloadedError: the queue has no room for all of them, or would take too long.
            InternalError: one raised; its own error is the cause.
            DrainingError: the service ends.
        """
        waiter: Waiter[Result] = self._waiter(len(jobs))
        entries = [
            Entry(self._run, waiter, index, job, job.encodings) for index, job in enumerate(jobs)
        ]
        # A kind of its own: jobs of two requests do not share a pass.
        return await self._wait(waiter, entries, kind=waiter, deadline=deadline, hurries=False)

    async def close(self, patience: float | None = None) -> bool:
        """Lets the passes in hand end and refuses all who wait.

        Args:
            patience: seconds after which a pass is held to be one that never ends; None: as long
                as it takes.

        Returns:
            Whether all passes ended.
        """
        with self._changed:
            self._closed = True
            self._changed.notify_all()
        _, stuck = await asyncio.wait(self._workers, timeout=patience)
        await asyncio.sleep(0)  # the results of the last passes are handed out first
        for waiter in list(self._waiters):
            waiter.fail(DrainingError(_STUCK if stuck else _DRAINED, retry_after=1))
        return not stuck

    def _waiter(self, count: int) -> Waiter[Result]:
        return Waiter(self._loop.create_future(), count)

    async def _wait(
        self,
        waiter: Waiter[Result],
        entries: Sequence[Entry],
        *,
        kind: Hashable,
        deadline: float,
        hurries: bool = True,
    ) -> list[Result]:
        sized = [(entry, entry.tokens) for entry in entries]
        if hurries:
            # Neighbours of like length share a batch, so that little of it is padding.
            sized.sort(key=lambda each: each[1])
        turn = self._admit(sized, kind, deadline - self._loop.time(), hurries)
        self._waiters.add(waiter)
        try:
            return await waiter.future
        finally:
            self._waiters.discard(waiter)
            if turn.waiting_texts:
                with self._changed:
                    self._schedule.drop(turn)

    def _admit(
        self,
        entries: Sequence[tuple[Entry, int]],
        kind: Hashable,
        seconds: float,
        hurries: bool,
    ) -> Turn:
        tokens = sum(count for _, count in entries)
        with self._changed:
            if self._closed:
                raise DrainingError(_DRAINED, retry_after=1)
            self._admission.check(
                tokens,
                waiting=self._schedule.tokens,
                computing=self._computing,
                seconds=seconds,
            )
            now = time.monotonic()
            urgent_at = now + _SHARE_OF_PATIENCE * seconds if hurries else math.inf
            turn = self._schedule.add(entries, kind=kind, urgent_at=urgent_at)
            self._lanes.note_arrival((count for _, count in entries), now)
            self._changed.notify(min(len(entries), len(self._workers)))
            return turn

    def _work(self) -> None:
        """One lane: runs on a thread of the executor until the batcher is closed."""
        lane = threading.get_ident()
        threads_before = 0
        while (taken := self._next_batch()) is not None:
            batch, tokens, threads, is_long = taken
            started = self._passes[lane]
            try:
                if threads != threads_before:
                    self._use_threads(threads)
                    threads_before = threads
                deliver = batch.compute(self._loop.call_soon_threadsafe)
            except Exception as error:  # whatever a pass raises, all who wait for it must hear
                tell = partial(self._failed, batch, error)
            else:
                tell = partial(self._worked, batch, deliver, time.monotonic() - started)
            with self._changed:
                del self._passes[lane]
                self._computing -= tokens
                if tokens:
                    waiting = self._schedule.tokens > 0
                    self._admission.throughput.note(
                        time.monotonic(), tokens=tokens, waiting=waiting
                    )
                self._lanes.end(is_long=is_long)
                self._changed.notify()  # one that left a long text to others may take it now
            self._loop.call_soon_threadsafe(tell)

    def _next_batch(self) -> tuple[Pass, int, int, bool] | None:
        """Waits for the next batch; with its tokens, the threads it may have, whether it is long.

        None once the batcher is closed.
        """
        with self._changed:
            while not self._closed:
                tokens = self._schedule.tokens
                now = time.monotonic()
                # What waits is shared among the lanes, so that none is left without work.
                entries = self._schedule.take(
                    max(tokens // self._lanes.count, WORTH_SHARING_TOKENS),
                    longest=self._lanes.longest(now),
                    now=now,
                )
                if entries:
                    break
                self._changed.wait(SHORT_COME_WITHIN if tokens else None)
            else:
                return None
            self._passes[threading.get_ident()] = time.monotonic()
            left = self._schedule.tokens
            self._computing += tokens - left
            threads, is_long = self._lanes.begin(tokens - left, len(entries), is_all=not left)
        return Pass(entries), tokens - left, threads, is_long

    def _failed(self, batch: Pass, error: Exception) -> None:
        failure = InternalError(INTERNAL_DETAIL)
        failure.__cause__ = error
        batch.fail(failure)
        if batch.encodings:
            self._metrics.forward_failures.inc()
            self._on_pass(error)

    def _worked(self, batch: Pass, deliver: Callable[[], None], seconds: float) -> None:
        deliver()
        if encodings := batch.encodings:
            self._metrics.observe_pass(encodings, seconds, batch.path)
            self._on_pass(None)
