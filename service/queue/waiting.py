"""Holds the requests that wait, and gives each worker its next batch; threads may share it.

There is an ordinary worker for each core. While heavy passes keep all cores busy, the express
worker takes light requests; while gradients do, the relief worker takes all other predictions.
"""

import math
import threading
import time
from collections import deque
from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from enum import Enum, auto
from functools import partial
from typing import Any, NamedTuple

from model.predictor import PathName
from service.errors import DrainingError
from service.metrics import EXPLICIT, FUSED, GRADIENT
from service.queue.admission import Admission, ClientId, Cost, RequestCost
from service.queue.scheduler import Flow, Schedule
from service.queue.work_items import PendingRequest, ScheduledBatch, Weight, WorkItem

DRAINED = "The service is shutting down: send the request to another replica, or again later."
# After this share of its time, a request is urgent.
_URGENT_SHARE = 0.4
# With fewer tokens, sharing work among cores costs more than it gains.
WORTH_SHARING_TOKENS = 100
_FEWEST_TOKENS_PER_THREAD = 8
# A request of at most so many tokens is light if its client has at most so many others waiting.
_LIGHT_TOKENS = 256
# A worker that stops so often, with fewer passes of all workers in between, is not replaced.
MOST_ENDS = 3
WITHIN_PASSES = 100


class WorkerKind(Enum):
    """The kinds of workers; see the module."""

    ORDINARY = auto()
    EXPRESS = auto()
    RELIEF = auto()


EXTRA_WORKERS = (WorkerKind.EXPRESS, WorkerKind.RELIEF)


def is_light(tokens: float, others: float) -> bool:
    """Whether a request is light, by its tokens and those of its client's other requests."""
    return tokens <= _LIGHT_TOKENS and others <= _LIGHT_TOKENS


class Workers:
    """The work of all workers on `count` cores; one thread at a time may use it."""

    def __init__(self, count: int, *, worth_sharing: int = WORTH_SHARING_TOKENS) -> None:
        self.count = count
        self._worth_sharing = worth_sharing
        # Where little work is worth sharing, two threads share it.
        self._fewest = max(1, min(_FEWEST_TOKENS_PER_THREAD, worth_sharing // 2))
        self._busy = 0
        self._heavy = 0
        self._gradient = 0

    @property
    def are_taken(self) -> bool:
        """Whether heavy passes keep all cores busy."""
        return self._heavy >= self.count

    def may_take(self, worker: WorkerKind, weight: Weight) -> bool:
        """Whether a worker of a kind may take a request of a weight."""
        if worker is WorkerKind.EXPRESS:
            return weight.light and self.are_taken
        if worker is WorkerKind.RELIEF:
            return not (weight.light or weight.gradient) and self._gradient >= self.count
        return True

    def begin(self, weight: Weight, tokens: int, *, is_all: bool) -> int:
        """Notes that a worker took a batch, of all that waits or not; returns its threads."""
        self._busy += 1
        self._count(weight, 1)
        alone = self._busy == 1 and is_all and tokens >= self._worth_sharing
        return min(self.count, tokens // self._fewest) if alone else 1

    def end(self, weight: Weight) -> None:
        """Notes that the batch of a worker ended."""
        self._busy -= 1
        self._count(weight, -1)

    def _count(self, weight: Weight, change: int) -> None:
        self._heavy += change * (not weight.light)
        self._gradient += change * weight.gradient


class Kind(NamedTuple):
    """What requests have in common that may share a pass: a task (or request) and a weight."""

    group: Hashable
    weight: Weight


@dataclass(slots=True)
class WorkerState:
    """What a worker is doing.

    Args:
        thread: its thread id.
        batch: what it computes, until the report is sent.
        free_since: when its last pass ended, or it was woken.
        is_full: whether more texts waited when the batch was taken.
        is_counted: whether `Workers` counts the batch.
    """

    thread: int
    kind: WorkerKind
    batch: ScheduledBatch | None = None
    free_since: float = 0.0
    threads: int = 1
    is_full: bool = False
    is_counted: bool = False


class Ends:
    """How often a worker stopped unexpectedly."""

    def __init__(self) -> None:
        self._last: deque[int] = deque(maxlen=MOST_ENDS)

    def note(self, passes: int) -> bool:
        """Notes a stop after so many passes of all workers; returns whether to restart it."""
        self._last.append(passes)
        return len(self._last) < MOST_ENDS or passes - self._last[0] >= WITHIN_PASSES


class Queue:
    """The requests that wait, and what each worker is doing; see `Batcher` for its arguments."""

    def __init__(
        self,
        *,
        workers: int,
        cores: int,
        worth_sharing: int,
        max_batch_tokens: int,
        max_queue_tokens: int,
        costs: dict[PathName, Cost] | None,
    ) -> None:
        lock = threading.RLock()  # guards everything
        self._changed = threading.Condition(lock)
        self._extra_wanted = threading.Condition(lock)
        self._schedule: Schedule[WorkItem] = Schedule(max_batch_tokens)
        self._workers = Workers(cores, worth_sharing=worth_sharing)
        self._costs = costs or {path: Cost() for path in (FUSED, EXPLICIT, GRADIENT)}
        self._admission = Admission(
            max_queue_tokens,
            workers=workers,
            max_batch_tokens=max_batch_tokens,
            cost=self._costs[FUSED],
        )
        self._started: dict[int, float] = {}  # when the pass of each busy worker started
        self.closed = False

    @property
    def tokens(self) -> int:
        """Tokens that wait."""
        return self._schedule.tokens

    def work_seconds(self) -> float:
        """Returns how many seconds the admitted work takes; 0 if idle."""
        with self._changed:
            return self._admission.seconds

    def longest_pass(self) -> float:
        """Returns for how many seconds the oldest running pass has been running; 0 if idle."""
        with self._changed:
            return time.monotonic() - min(self._started.values()) if self._started else 0.0

    def check_room(self, caller: ClientId, seconds: float, *, now: float, ahead: int) -> None:
        """Raises as `Admission.check_room` does."""
        with self._changed:
            self._admission.check_room(caller, seconds, now=now, ahead=ahead)

    def admit(
        self,
        items: Sequence[tuple[WorkItem, int]],
        caller: ClientId,
        work: RequestCost,
        seconds: float,
        *,
        is_job: bool,
    ) -> Flow:
        """Queues a request with some seconds until its deadline, or refuses it.

        Jobs of two requests do not share a pass. Late heavy work must not go first, so jobs are
        never urgent.

        Raises:
            DrainingError: the queue is closed.
            ServiceError: whatever `Admission.check` and `caller.spend` raise.
        """
        task, request = items[0][0].task, items[0][0].request
        with self._changed:
            if self.closed:
                raise DrainingError(DRAINED, retry_after=1)
            self._admission.check(caller, work, seconds)
            caller.spend(work.tokens)
            others = self._admission.tokens_of(caller.client)
            self._admission.begin(caller.client, work)
            if request.trace is not None:
                request.trace.begin_waiting()
            light = not is_job and is_light(work.tokens * request.cost, others)
            request.weight = Weight(light, gradient=is_job and work.tokens > 0)
            flow = self._schedule.add(
                items,
                kind=Kind(request if is_job else task, request.weight),
                urgent_at=math.inf if is_job else time.monotonic() + _URGENT_SHARE * seconds,
                client=caller.client,
                cost_per_token=request.predictions,
            )
            self._changed.notify(len(items))
            self._wake_extra()
            return flow

    def leave(
        self,
        request: PendingRequest[Any],
        flow: Flow,
        caller: ClientId,
        work: RequestCost,
        *,
        answered: bool,
    ) -> None:
        """Forgets a request that has its answer or was given up; drops what of it still waits."""
        with self._changed:
            if flow.waiting_texts:
                self._admission.take(request.client, flow.waiting_tokens)
                amount = flow.waiting_tokens * flow.cost_per_token
                self._admission.end(request.client, flow.waiting_tokens, amount)
                self._schedule.drop(flow)
            self._admission.leave(caller, work, answered=answered)

    def next_batch(self, worker: WorkerState) -> ScheduledBatch | None:
        """Waits for a batch that a worker may take; returns None after `close`."""
        wanted = self._changed if worker.kind is WorkerKind.ORDINARY else self._extra_wanted
        worker.free_since = time.monotonic()
        with self._changed:
            while not self.closed:
                if items := self._take(worker.kind):
                    worker.batch = ScheduledBatch(items)
                    self._begin(worker, worker.batch)
                    return worker.batch
                wanted.wait()
                worker.free_since = time.monotonic()
        return None

    def seconds_of(self, worker: WorkerState) -> float:
        """How long the pass of a worker has been running."""
        return time.monotonic() - self._started[worker.thread]

    def note_cost(self, worker: WorkerState) -> None:
        """Notes for how long a pass kept a worker, unless several threads computed it."""
        if worker.batch is not None and worker.threads == 1 and worker.batch.tokens:
            seconds = time.monotonic() - worker.free_since
            self._costs[worker.batch.path].note(worker.batch.cost, seconds, full=worker.is_full)

    def put_down(self, worker: WorkerState) -> None:
        """Notes that the pass of a worker ended, however far it came."""
        with self._changed:
            if worker.batch is not None and self._started.pop(worker.thread, None) is not None:
                for item in worker.batch.items:
                    request = item.request
                    amount = item.tokens * request.predictions
                    self._admission.end(request.client, item.tokens, amount)
            if worker.batch is not None and worker.is_counted:
                worker.is_counted = False
                self._workers.end(worker.batch.weight)

    def wake_another(self) -> None:
        """Lets another worker take what a worker was woken for that stopped."""
        with self._changed:
            self._changed.notify()
            self._extra_wanted.notify_all()

    def close(self) -> None:
        """Hands out no more batches, and admits nothing."""
        with self._changed:
            self.closed = True
            self._changed.notify_all()
            self._extra_wanted.notify_all()

    def _take(self, worker: WorkerKind) -> list[WorkItem]:
        now = time.monotonic()
        if worker is not WorkerKind.ORDINARY:
            return self._schedule.take(now=now, kinds=partial(self._may_take, worker))
        # The workers share the waiting texts, so that none is left without work.
        share = max(self._schedule.tokens // self._workers.count, WORTH_SHARING_TOKENS)
        return self._schedule.take(share, now=now)

    def _begin(self, worker: WorkerState, batch: ScheduledBatch) -> None:
        for item in batch.items:
            self._admission.take(item.request.client, item.tokens)
        self._started[worker.thread] = time.monotonic()
        if worker.kind is WorkerKind.ORDINARY:
            worker.is_full = self._schedule.tokens > 0
            worker.threads = self._workers.begin(
                batch.weight, batch.tokens, is_all=not worker.is_full
            )
            worker.is_counted = True
            self._wake_extra()

    def times_a_prediction(self, path: PathName) -> float:
        """How many times what a token of a prediction costs."""
        # Not in seconds: when all passes get slower, younger requests would seem to cost more.
        usual, cost = self._costs[FUSED].per_token, self._costs[path].per_token
        return cost / usual if usual and cost else 1.0

    def _may_take(self, worker: WorkerKind, kind: Hashable) -> bool:
        assert isinstance(kind, Kind)  # noqa: S101 - what `admit` gives
        return self._workers.may_take(worker, kind.weight)

    def _wake_extra(self) -> None:
        if self._workers.are_taken:
            for worker in EXTRA_WORKERS:
                if self._schedule.waits(partial(self._may_take, worker)):
                    self._extra_wanted.notify_all()
                    return
