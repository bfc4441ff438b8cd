"""Holds the requests that wait, and hands each lane its next batch; threads may share it."""

import math
import threading
import time
from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

from model.predictor import PathName
from service.errors import DrainingError
from service.inference.admission import Admission, ClientId, RequestCost
from service.inference.cost import Cost
from service.inference.scheduler import Flow, Schedule
from service.inference.work_items import PendingRequest, ScheduledBatch, WorkItem
from service.inference.workers import (
    EXTRA_LANES,
    WORTH_SHARING_TOKENS,
    Lane,
    Lanes,
    Weight,
    is_light,
)
from service.metrics import EXPLICIT, FUSED, GRADIENT

DRAINED = "The service is shutting down: send the request to another replica, or again later."
# After this share of its time, a request is urgent.
_URGENT_SHARE = 0.4


class Kind(NamedTuple):
    """What requests have in common that may share a pass.

    Args:
        group: the task; of jobs, the request.
        weight: a light request does not wait for heavy ones in its pass.
    """

    group: Hashable
    weight: Weight


@dataclass(slots=True)
class WorkerState:
    """What a lane is doing.

    Args:
        lane: identifies it among those that run.
        kind: of the lane.
        batch: what it computes, until the report is sent.
        free_since: when its pass before ended, or it was woken if it had to wait.
        threads: that compute it.
        is_full: whether more texts waited when the batch was taken.
        is_counted: whether `Lanes` counts the batch.
    """

    lane: int
    kind: Lane
    batch: ScheduledBatch | None = None
    free_since: float = 0.0
    threads: int = 1
    is_full: bool = False
    is_counted: bool = False


class Queue:
    """The requests that wait, and what each lane is doing.

    Args:
        lanes: passes that are computed at once.
        cores: that the lanes share.
        worth_sharing: the fewest tokens for which a pass that is alone uses several threads.
        max_batch_tokens: limit of `longest * count` of a batch; a longer text goes alone.
        max_queue_tokens: tokens that may wait.
        costs: of a token of each path; what is known before the first pass. None: nothing.
    """

    def __init__(
        self,
        *,
        lanes: int,
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
        self._lanes = Lanes(cores, worth_sharing=worth_sharing)
        self._costs = costs or {path: Cost() for path in (FUSED, EXPLICIT, GRADIENT)}
        self._admission = Admission(
            max_queue_tokens,
            lanes=lanes,
            max_batch_tokens=max_batch_tokens,
            cost=self._costs[FUSED],
        )
        self._started: dict[int, float] = {}  # when the pass of each busy lane started
        self.closed = False

    @property
    def tokens(self) -> int:
        """Tokens that wait."""
        return self._schedule.tokens

    @property
    def is_idle(self) -> bool:
        """Whether nothing waits and nothing is computed."""
        with self._changed:
            return not self._started and self._admission.is_empty

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
        entries: Sequence[tuple[WorkItem, int]],
        caller: ClientId,
        work: RequestCost,
        seconds: float,
        *,
        is_job: bool,
    ) -> Flow:
        """Queues a request, or refuses it.

        Args:
            entries: of the request, with their tokens.
            caller: who sends it.
            work: what it costs.
            seconds: time until its deadline.
            is_job: jobs of two requests do not share a pass, and are never urgent.

        Raises:
            DrainingError: the queue is closed.
            ServiceError: whatever `Admission.check` and `caller.spend` raise.
        """
        task, waiter = entries[0][0].task, entries[0][0].waiter
        with self._changed:
            if self.closed:
                raise DrainingError(DRAINED, retry_after=1)
            self._admission.check(caller, work, seconds)
            caller.spend(work.tokens)
            others = self._admission.tokens_of(caller.client)
            self._admission.begin(caller.client, work)
            if waiter.trace is not None:
                waiter.trace.begin_waiting()
            light = not is_job and is_light(work.tokens * waiter.cost, others)
            waiter.weight = Weight(light, gradient=is_job and work.tokens > 0)
            flow = self._schedule.add(
                entries,
                kind=Kind(waiter if is_job else task, waiter.weight),
                urgent_at=math.inf if is_job else time.monotonic() + _URGENT_SHARE * seconds,
                client=caller.client,
                cost_per_token=waiter.predictions,
            )
            self._changed.notify(len(entries))
            self._wake_extra()
            return flow

    def leave(
        self,
        waiter: PendingRequest[Any],
        flow: Flow,
        caller: ClientId,
        work: RequestCost,
        *,
        answered: bool,
    ) -> None:
        """Forgets a request that has its answer or was given up; drops what of it still waits."""
        with self._changed:
            if flow.waiting_texts:
                self._admission.take(waiter.client, flow.waiting_tokens)
                amount = flow.waiting_tokens * flow.cost_per_token
                self._admission.end(waiter.client, flow.waiting_tokens, amount)
                self._schedule.drop(flow)
            self._admission.leave(caller, work, answered=answered)

    def next_batch(self, hand: WorkerState) -> ScheduledBatch | None:
        """Waits for a batch that a lane may take, and gives it into its hand.

        Returns:
            The batch; None after `close`.
        """
        wanted = self._changed if hand.kind is Lane.ORDINARY else self._extra_wanted
        hand.free_since = time.monotonic()
        with self._changed:
            while not self.closed:
                if entries := self._take(hand.kind):
                    hand.batch = ScheduledBatch(entries)
                    self._begin(hand, hand.batch)
                    return hand.batch
                wanted.wait()
                hand.free_since = time.monotonic()
        return None

    def seconds_of(self, hand: WorkerState) -> float:
        """How long the pass of a lane has been running."""
        return time.monotonic() - self._started[hand.lane]

    def note_cost(self, hand: WorkerState) -> None:
        """Notes for how long a pass kept a lane, unless several threads computed it."""
        if hand.batch is not None and hand.threads == 1 and hand.batch.tokens:
            seconds = time.monotonic() - hand.free_since
            self._costs[hand.batch.path].note(hand.batch.cost, seconds, full=hand.is_full)

    def put_down(self, hand: WorkerState) -> None:
        """Notes that the pass of a lane ended, however far it came."""
        with self._changed:
            if hand.batch is not None and self._started.pop(hand.lane, None) is not None:
                for entry in hand.batch.entries:
                    waiter = entry.waiter
                    amount = entry.tokens * waiter.predictions
                    self._admission.end(waiter.client, entry.tokens, amount)
            if hand.batch is not None and hand.is_counted:
                hand.is_counted = False
                self._lanes.end(hand.batch.weight)

    def wake_another(self) -> None:
        """Has another lane take what one was woken for that ended."""
        with self._changed:
            self._changed.notify()
            self._extra_wanted.notify_all()

    def close(self) -> None:
        """Hands out no more batches, and admits nothing."""
        with self._changed:
            self.closed = True
            self._changed.notify_all()
            self._extra_wanted.notify_all()

    def _take(self, lane: Lane) -> list[WorkItem]:
        now = time.monotonic()
        if lane is not Lane.ORDINARY:
            return self._schedule.take(now=now, kinds=partial(self._may_take, lane))
        # The lanes share the waiting texts, so that none is left without work.
        share = max(self._schedule.tokens // self._lanes.count, WORTH_SHARING_TOKENS)
        return self._schedule.take(share, now=now)

    def _begin(self, hand: WorkerState, batch: ScheduledBatch) -> None:
        for entry in batch.entries:
            self._admission.take(entry.waiter.client, entry.tokens)
        self._started[hand.lane] = time.monotonic()
        if hand.kind is Lane.ORDINARY:
            hand.is_full = self._schedule.tokens > 0
            hand.threads = self._lanes.begin(batch.weight, batch.tokens, is_all=not hand.is_full)
            hand.is_counted = True
            self._wake_extra()

    def times_a_prediction(self, path: PathName) -> float:
        """How many times what a token of a prediction costs.

        Seconds would not do: when all passes get slower, younger requests would seem to cost more.
        """
        usual, cost = self._costs[FUSED].per_token, self._costs[path].per_token
        return cost / usual if usual and cost else 1.0

    def _may_take(self, lane: Lane, kind: Hashable) -> bool:
        assert isinstance(kind, Kind)  # noqa: S101 - what `admit` gives
        return self._lanes.may_take(lane, kind.weight)

    def _wake_extra(self) -> None:
        if self._lanes.are_taken:
            for lane in EXTRA_LANES:
                if self._schedule.waits(partial(self._may_take, lane)):
                    self._extra_wanted.notify_all()
                    return
