"""Admits requests whose work can end in time, and counts no client's work against another.

Work is counted in tokens of a prediction, and becomes seconds by what such a token takes now.
Clients share the workers fairly, as the schedule serves them: while a request of size x is
computed, each other client gets at most x too. So a request that comes when client c has the work
B_c and other clients have B_1, B_2, ... ends after

    (B_c + k + sum of min(B_i, B_c + k)) / workers

seconds, where k is its own work. A client with hours of work delays another's small request by no
more than that request takes itself.
"""

import math
import sys
from collections.abc import Hashable, Iterable, Mapping
from dataclasses import dataclass, field
from operator import ge
from typing import NamedTuple, NoReturn

from model.predictor import PathName
from service.errors import OverloadedError, Refusal, TooMuchWorkError
from service.metrics import FUSED, GRADIENT
from service.queue.scheduler import PASS_TOKENS, Item, Request, Schedule, Weight

# The share of a request's time that its work and the work before it may take.
_SHARE_OF_TIME = 0.7
# Rows of a text beside those of the steps: the text itself and its baseline.
_ROWS_BESIDE_STEPS = 2
_WEIGHT_OF_LAST = 0.05
# Before requests are read, so many of the usual size are left free, or a pass if that is less.
_SPARE_REQUESTS = 10
# What was refused stays refused for so many seconds. It saves a flood of clients a look at each.
_CLOSED_SECONDS = 0.01
# A request of at most so many tokens is light if its client has at most so many others waiting.
_LIGHT_TOKENS = 256
# Passes count for about so many seconds.
_HORIZON_SECONDS = 2.0
# A pass of more than the horizon counts for at most so many times what was expected: the process
# may have been stopped. If it has become slower, more such passes follow.
_MOST_TIMES_SLOWER = 4.0

Pace = Mapping[PathName, float]


@dataclass(frozen=True, slots=True)
class WorkLimits:
    """What a token costs, and the most work of one request that an idle replica computes in time.

    It depends only on what was measured at the start. So a request is always refused or never,
    however busy the replica is.

    Args:
        pace: seconds of a core for a token, by path; a path that is not measured has no limit.
        cores: how many compute at once.
        max_length: tokens of the longest text.
        max_batch_tokens: what fits into a pass may always be tried, a text by itself, and a step.
        max_queue_tokens: the most tokens of any request.
    """

    pace: Pace = field(default_factory=dict)
    cores: int = 1
    max_length: int = 1
    max_batch_tokens: int = 1
    max_queue_tokens: int = sys.maxsize

    def cost_of(self, path: PathName) -> float:
        """Returns what a token of a path costs, in tokens of a prediction."""
        usual, pace = self.pace.get(FUSED, 0.0), self.pace.get(path, 0.0)
        return pace / usual if usual and pace else 1.0

    def seconds(self, path: PathName, tokens: int) -> float:
        """Returns how long an idle replica computes; 0 for what may always be tried."""
        is_tried = tokens <= self.most_tokens(path, 0.0)
        return 0.0 if is_tried else tokens * self.pace.get(path, 0.0) / self.cores

    def most_tokens(self, path: PathName, seconds: float) -> int:
        """Returns the most tokens of a request that has so many seconds in all."""
        pace, room = self.pace.get(path, 0.0), _SHARE_OF_TIME * seconds * self.cores
        fitting = int(room / pace) if room < self.max_queue_tokens * pace else self.max_queue_tokens
        if path == GRADIENT:  # whole rows, so that `max_work_steps` says all; one step at least
            rows = max(fitting // self.max_length, 1 + _ROWS_BESIDE_STEPS)
            return rows * self.max_length
        return min(max(fitting, self.max_batch_tokens, self.max_length), self.max_queue_tokens)

    def most_steps(self, length: int, seconds: float) -> int:
        """Returns the most steps of integrated gradients for a text of so many tokens."""
        return self.most_tokens(GRADIENT, seconds) // length - _ROWS_BESIDE_STEPS

    def check(
        self, path: PathName, tokens: int, seconds: float, *, what: str = "The request takes"
    ) -> None:
        """Raises TooMuchWorkError for more tokens than a request may have."""
        if tokens > (most := self.most_tokens(path, seconds)):
            raise TooMuchWorkError(
                f"{what} {tokens} tokens through the network, and a request that has {seconds:.3g} "
                f"seconds may take at most {most}: send fewer or shorter texts at once.",
                fits={"tokens": most},
            )

    def check_steps(self, steps: int, length: int, seconds: float) -> None:
        """Raises TooMuchWorkError for more steps than a text of so many tokens may have."""
        if steps > (most := self.most_steps(length, seconds)):
            raise TooMuchWorkError(
                f"{steps} steps are too many for a text of {length} tokens, and a request that has "
                f"{seconds:.3g} seconds may take at most {most}: ask for fewer, or shorten it.",
                fits={"steps": most},
            )


NO_LIMITS = WorkLimits()


class Rate:
    """Seconds of a worker for a token of a prediction, as measured lately."""

    def __init__(self) -> None:
        self._tokens = 0.0
        self._seconds = 0.0

    @property
    def seconds(self) -> float:
        """Seconds of one worker for a token; 0 if nothing is known."""
        return self._seconds / self._tokens if self._tokens else 0.0

    def note(self, tokens: float, seconds: float, *, full: bool) -> None:
        """Notes that a pass kept a worker busy; `full` if more texts waited when it began."""
        # One that is not full could hold more at little cost: a rarely used replica looked slow.
        tokens += 0 if full else PASS_TOKENS
        if expected := self.seconds * tokens:
            seconds = min(seconds, max(_MOST_TIMES_SLOWER * expected, _HORIZON_SECONDS))
        kept = math.exp(-seconds / _HORIZON_SECONDS)
        self._tokens = self._tokens * kept + tokens
        self._seconds = self._seconds * kept + seconds


@dataclass(slots=True)
class _Share:
    """What a client has in hand: requests, and their tokens and work that are not done."""

    requests: int = 0
    tokens: int = 0
    work: float = 0.0


class _Size(NamedTuple):
    """The size of requests: tokens, and their work in tokens of a prediction."""

    tokens: float
    work: float

    def times(self, factor: float) -> "_Size":
        return _Size(factor * self.tokens, factor * self.work)


_NO_SHARE = _Share()
_NOTHING, _SMALLEST = _Size(0.0, 0.0), _Size(1.0, 0.0)


class Admission:
    """Decides whether a request may wait in a schedule; one thread at a time may use it."""

    def __init__(
        self,
        schedule: Schedule,
        limits: WorkLimits,
        *,
        workers: int,
        max_batch_tokens: int,
        max_queue_tokens: int,
    ) -> None:
        self._schedule = schedule
        self._limits = limits
        #: what a token takes; passes change it
        self.rate = Rate()
        if FUSED in limits.pace:
            self.rate.note(max_batch_tokens, limits.pace[FUSED] * max_batch_tokens, full=True)
        self._workers = workers
        self._max_batch_tokens = max_batch_tokens
        self._max_queue_tokens = max_queue_tokens
        self._shares: dict[Hashable, _Share] = {}
        self._work = 0.0  # of all clients
        self._capped_work = 0.0  # the same, where a client's counts as one pass at most
        self._usual: dict[str, _Size] = {}  # the mean of a route's answered requests
        # What was refused a moment ago.
        self._closed_until = -math.inf
        self._closed_for = _Size(math.inf, math.inf)
        self._refusal = OverloadedError("", refusal=Refusal.QUEUE_FULL)

    @property
    def seconds(self) -> float:
        """Seconds until all admitted work is done; 0 without any."""
        return max(self._work, 0.0) * self.rate.seconds / self._workers

    def admit(self, request: Request, seconds: float) -> None:
        """Admits a request that has `seconds` until its deadline, and says how heavy it is.

        Raises:
            TooMuchWorkError: an idle replica could not compute it in time either.
            OverloadedError: it would end too late, or the queue is full; says when to come back.
            RateLimitedError: its client has used up its tokens.
        """
        caller, tokens = request.caller, request.tokens
        self._limits.check(request.path, tokens, caller.seconds)
        work = tokens * request.cost
        idle_seconds = self._limits.seconds(request.path, tokens)
        if self._shares:
            self._check(caller.client, _Size(tokens, work), seconds)
        elif idle_seconds > max(seconds, 0.0):
            self._refuse(
                Refusal.DEADLINE,
                f"The request takes {idle_seconds:.3g} seconds of work, and {seconds:.3g} are left "
                f"of its {caller.seconds:.3g}",
                (idle_seconds - seconds) * self._workers,
            )
        caller.spend(tokens)
        request.weight = self._weigh(request, work)
        self._count(caller.client, requests=1, tokens=tokens, work=work)

    def check_room(
        self, client: Hashable, route: str, seconds: float, *, now: float, ahead: int = 0
    ) -> None:
        """Refuses a request before it is read, if one of the usual size would be refused.

        Each of the `ahead` admitted requests that are not read yet counts as one of the usual size.

        Raises:
            OverloadedError: there is no room.
        """
        if not self._shares:
            return
        usual = self._usual.get(route, _SMALLEST)
        waiting, own = self._schedule.waiting[client], self._shares.get(client, _NO_SHARE)
        size = _Size(waiting + usual.tokens, own.work + usual.work)
        if now < self._closed_until and all(map(ge, size, self._closed_for)):
            raise self._refusal.with_traceback(None)
        # With room for some more, so that few are refused after all once they are read.
        before = usual.times(ahead)
        spare = min(_SPARE_REQUESTS * usual.work, self._max_batch_tokens)
        before = _Size(before.tokens, before.work + spare)
        try:
            self._check(client, usual, seconds, before=before, name="one usually")
        except OverloadedError as refusal:
            self._refusal, self._closed_for = refusal, size
            self._closed_until = now + _CLOSED_SECONDS
            raise

    def note_done(self, item: Item) -> None:
        """Counts an item as done, whether its pass failed or not."""
        request = item.request
        self._count(request.caller.client, tokens=-item.tokens, work=-item.tokens * request.cost)

    def leave(self, request: Request, dropped: int, *, answered: bool) -> None:
        """Forgets a request that has its answer or was given up, and the tokens that are dropped.

        What of it is in a pass still counts.
        """
        client = request.caller.client
        self._count(client, requests=-1, tokens=-dropped, work=-dropped * request.cost)
        if answered:
            # One larger than a pass counts as a pass, so that large ones shut out no small ones.
            size = _Size(request.tokens, request.tokens * request.cost)
            size = size.times(min(1.0, self._max_batch_tokens / max(request.tokens, 1)))
            usual = self._usual.get(request.caller.route, size).times(1 - _WEIGHT_OF_LAST)
            last = size.times(_WEIGHT_OF_LAST)
            self._usual[request.caller.route] = _Size(
                usual.tokens + last.tokens, usual.work + last.work
            )

    def _count(self, client: Hashable, *, requests: int = 0, tokens: int, work: float) -> None:
        share = self._shares.setdefault(client, _Share())
        before = min(share.work, self._max_batch_tokens)
        share.requests += requests
        share.tokens += tokens
        share.work += work
        self._work += work
        self._capped_work += min(share.work, self._max_batch_tokens) - before
        if not (share.requests or share.tokens):
            del self._shares[client]
        if not self._shares:
            self._work = self._capped_work = 0.0  # no sum of rounding errors

    def _weigh(self, request: Request, work: float) -> Weight:
        if request.path == GRADIENT:
            return Weight.GRADIENT if request.tokens else Weight.HEAVY
        others = self._schedule.waiting[request.caller.client]
        return Weight.LIGHT if max(work, others) <= _LIGHT_TOKENS else Weight.HEAVY

    def _check(
        self,
        client: Hashable,
        size: _Size,
        seconds: float,
        *,
        before: _Size = _NOTHING,
        name: str = "the request",
    ) -> None:
        """Refuses what ends too late, or what the queue has no room for.

        Most requests are admitted by the sum of all that waits, which needs no look at each client.
        """
        rate, work = self.rate.seconds, before.work + self._work
        tokens = before.tokens + self._schedule.tokens
        if tokens + size.tokens > self._max_queue_tokens:
            waiting = self._schedule.waiting
            tokens = before.tokens + _fair(waiting.values(), waiting[client] + size.tokens)
            if tokens + size.tokens > self._max_queue_tokens:
                missing = tokens + size.tokens - self._max_queue_tokens
                self._refuse(
                    Refusal.QUEUE_FULL,
                    f"{tokens:.0f} tokens are waiting, {name} has {size.tokens:.0f}, and the "
                    f"queue holds {self._max_queue_tokens}",
                    missing / (tokens + size.tokens) * (work + size.work) * rate,
                )
        most = _SHARE_OF_TIME * max(seconds, 0.0) * self._workers / rate if rate else math.inf
        own = self._shares.get(client, _NO_SHARE).work + size.work
        if work + size.work > most and own <= self._max_batch_tokens:
            work = before.work + self._capped_work
        if work + size.work > most:
            work = before.work + _fair([share.work for share in self._shares.values()], own)
        if work + size.work > most:
            per_token = rate / self._workers
            self._refuse(
                Refusal.DEADLINE,
                f"{work * per_token:.3g} seconds of work are waiting, {name} takes "
                f"{size.work * per_token:.3g}, and {most * per_token:.3g} can be computed in the "
                "time that it has",
                (work + size.work - most) * rate,
            )

    def _refuse(self, refusal: Refusal, reason: str, missing: float) -> NoReturn:
        raise OverloadedError(
            f"{reason}: come back later, or try another replica.",
            refusal=refusal,
            retry_after=missing / self._workers,
        )


def _fair(shares: Iterable[float], own: float) -> float:
    """Returns what of the clients' shares ends no later than `own`."""
    return sum([min(share, own) for share in shares])
