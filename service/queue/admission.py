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
import time
from collections.abc import Callable, Hashable
from dataclasses import dataclass
from operator import attrgetter, ge
from typing import NoReturn

from service.errors import OverloadedError, Refusal
from service.queue.pace import SHARE_OF_TIME

_WEIGHT_OF_LAST = 0.05
# The gate leaves so many requests of the usual size free, or a pass if that is less.
_SPARE_REQUESTS = 10
# What was refused stays refused for so many seconds. It saves a flood of clients a look at each.
_CLOSED_SECONDS = 0.01


# The fixed cost of a pass that is not full, in tokens.
_PASS_TOKENS = 48
# Passes count for about so many seconds.
_HORIZON_SECONDS = 2.0
# A pass of more than the horizon counts for at most so many times what was expected: the process
# may have been stopped. If it has become slower, more such passes follow.
_MOST_TIMES_SLOWER = 4.0


class Cost:
    """Seconds of a worker for a token of one path."""

    def __init__(self) -> None:
        self._tokens = 0.0
        self._seconds = 0.0

    @property
    def per_token(self) -> float:
        """Seconds of one worker; 0 if nothing is known."""
        return self._seconds / self._tokens if self._tokens else 0.0

    def note(self, tokens: float, seconds: float, *, full: bool) -> None:
        """Notes that a pass kept a worker busy; `full` if more texts waited when it began."""
        # One that is not full could hold more at little cost: a rarely used replica looked slow.
        tokens += 0 if full else _PASS_TOKENS
        if expected := self.per_token * tokens:
            seconds = min(seconds, max(_MOST_TIMES_SLOWER * expected, _HORIZON_SECONDS))
        kept = math.exp(-seconds / _HORIZON_SECONDS)
        self._tokens = self._tokens * kept + tokens
        self._seconds = self._seconds * kept + seconds


@dataclass(frozen=True, slots=True)
class ClientId:
    """Who asks, and for what.

    Args:
        client: the same for all requests that share one share of the service.
        route: requests of one route cost about the same.
        spend: counts the tokens of an admitted request; raises if they are too many.
        seconds: how long the request may take in all.
    """

    client: Hashable = None
    route: str = ""
    spend: Callable[[int], None] = lambda _: None
    seconds: float = math.inf


@dataclass(frozen=True, slots=True)
class RequestCost:
    """What a request costs: tokens, their cost in tokens of a prediction, seconds if idle."""

    tokens: int
    amount: float
    seconds: float = 0.0


@dataclass(slots=True)
class _Share:
    """Work that is not done yet: requests, tokens that wait or run, and what they cost."""

    requests: int = 0
    tokens: float = 0
    running: int = 0
    amount: float = 0.0


@dataclass(slots=True)
class _Usual:
    """The mean of a route's answered requests: their tokens, and what they cost."""

    tokens: float = 1.0
    amount: float = 0.0


_NOTHING = _Share()
_SMALLEST = _Usual()


class Admission:
    """Decides whether a request may wait; one thread at a time may use it.

    A request that fits in one pass of `max_batch_tokens` may always try.
    """

    def __init__(
        self,
        max_queue_tokens: int,
        *,
        workers: int,
        max_batch_tokens: int,
        cost: Cost,
    ) -> None:
        self._cost = cost
        self._max_queue_tokens = max_queue_tokens
        self._workers = workers
        self._max_batch_tokens = max_batch_tokens
        self._shares: dict[Hashable, _Share] = {}
        self._total = _Share()
        self._usual: dict[str, _Usual] = {}  # by route
        self._closed_until = -math.inf
        self._closed_for = (math.inf, math.inf)  # tokens and amount that were refused
        self._refusal = OverloadedError("", refusal=Refusal.QUEUE_FULL)
        # What ended no later than work of some amount, a moment ago, with what came since.
        self._bound, self._bound_for, self._bound_until = 0.0, 0.0, -math.inf

    @property
    def seconds(self) -> float:
        """Seconds until all admitted work is done; 0 without any."""
        return max(self._total.amount, 0.0) * self._cost.per_token / self._workers

    def tokens_of(self, client: Hashable) -> float:
        """Tokens of a client's requests that wait."""
        share = self._shares.get(client)
        return share.tokens if share else 0

    def check(self, caller: ClientId, work: RequestCost, seconds: float) -> None:
        """Admits a request that has `seconds` until its deadline, or refuses it.

        Raises:
            OverloadedError: it would end too late, or the queue is full; says when to come back.
        """
        if self._shares:
            most = self._most_seconds(seconds)
            self._check_room(caller.client, work, most, _NOTHING, "the request")
        elif work.seconds > max(seconds, 0.0):
            self._refuse(
                Refusal.DEADLINE,
                f"The request takes {work.seconds:.3g} seconds of work, and {seconds:.3g} are left "
                f"of its {caller.seconds:.3g}",
                (work.seconds - seconds) * self._workers,
            )

    def check_room(self, caller: ClientId, seconds: float, *, now: float, ahead: int = 0) -> None:
        """Refuses a request before it is read, if one of the usual size would be refused.

        Each of the `ahead` admitted requests that are not read yet counts as one of the usual size.

        Raises:
            OverloadedError: there is no room.
        """
        if not self._shares:
            return
        usual = self._usual.get(caller.route, _SMALLEST)
        own = self._shares.get(caller.client, _NOTHING)
        size = own.tokens + usual.tokens, own.amount + usual.amount
        if now < self._closed_until and all(map(ge, size, self._closed_for)):
            raise self._refusal.with_traceback(None)
        # With room for some more, so that few are refused after all once they are read.
        spare = min(_SPARE_REQUESTS * usual.amount, self._max_batch_tokens)
        amount = ahead * usual.amount + spare
        before = _Share(ahead, ahead * usual.tokens, amount=amount)
        most = self._most_seconds(seconds)
        try:
            self._check_room(caller.client, usual, most, before, "one usually")
        except OverloadedError as refusal:
            self._refusal, self._closed_for = refusal, size
            self._closed_until = now + _CLOSED_SECONDS
            raise

    def begin(self, client: Hashable, work: RequestCost) -> None:
        """Counts a request that was admitted."""
        share = self._shares.setdefault(client, _Share())
        for each in (share, self._total):
            each.requests += 1
            each.tokens += work.tokens
            each.amount += work.amount
        self._bound += min(work.amount, self._bound_for)

    def take(self, client: Hashable, tokens: int) -> None:
        """Counts tokens of a client as running, which waited before."""
        for each in (self._shares[client], self._total):
            each.tokens -= tokens
            each.running += tokens

    def end(self, client: Hashable, tokens: int, amount: float) -> None:
        """Counts tokens of a client and their cost as done."""
        for each in (self._shares[client], self._total):
            each.running -= tokens
            each.amount -= amount
        self._forget_if_done(client)

    def leave(self, caller: ClientId, work: RequestCost, *, answered: bool) -> None:
        """Forgets a request that has its answer or was given up."""
        for each in (self._shares[caller.client], self._total):
            each.requests -= 1
        self._forget_if_done(caller.client)
        if answered:
            self._note_usual(caller.route, work)

    def _forget_if_done(self, client: Hashable) -> None:
        # Work of a request that was given up may still be in a pass.
        share = self._shares[client]
        if not (share.requests or share.tokens or share.running):
            del self._shares[client]
        if not self._shares:
            self._total = _Share()  # no sum of rounding errors

    def _note_usual(self, route: str, work: RequestCost) -> None:
        # A request larger than a pass counts as a pass, so that large ones shut out no small ones.
        part = min(1.0, self._max_batch_tokens / max(work.tokens, 1))
        tokens, amount = part * work.tokens, part * work.amount
        usual = self._usual.setdefault(route, _Usual(tokens, amount))
        usual.tokens += _WEIGHT_OF_LAST * (tokens - usual.tokens)
        usual.amount += _WEIGHT_OF_LAST * (amount - usual.amount)

    def _most_seconds(self, seconds: float) -> float:
        """Returns how many seconds of workers fit into the time that a request has."""
        return SHARE_OF_TIME * max(seconds, 0.0) * self._workers

    def _check_room(
        self, client: Hashable, work: RequestCost | _Usual, most: float, before: _Share, name: str
    ) -> None:
        """Refuses work that ends too late, or that the queue has no room for."""
        tokens, cost = work.tokens, self._cost.per_token
        seconds = work.amount * cost
        # Most requests are admitted by the first look, which costs the same for any queue.
        in_queue = self._total.tokens + before.tokens + tokens
        in_time = (self._total.amount + before.amount) * cost + seconds
        if in_queue > self._max_queue_tokens:
            in_queue = before.tokens + self._fair(client, attrgetter("tokens"), tokens)
            if in_queue > self._max_queue_tokens:
                self._refuse(
                    Refusal.QUEUE_FULL,
                    f"{in_queue - tokens:.0f} tokens are waiting, {name} has {tokens:.0f}, "
                    f"and the queue holds {self._max_queue_tokens}",
                    (in_queue - self._max_queue_tokens) * in_time / max(in_queue, 1),
                )
        if in_time > most:
            room = most / cost - before.amount
            in_time = (before.amount + self._fair_amount(client, work.amount, room)) * cost
            if in_time > most:
                self._refuse(
                    Refusal.DEADLINE,
                    f"{(in_time - seconds) / self._workers:.3g} seconds of work are waiting, "
                    f"{name} takes {seconds / self._workers:.3g}, and {most / self._workers:.3g} "
                    "can be computed in the time that it has",
                    in_time - most,
                )

    def _fair_amount(self, client: Hashable, own: float, most: float) -> float:
        """Returns the amount that ends no later than a client's with `own` more, or a bound.

        A bound of the last milliseconds is returned if it is at most `most`: a flood has thousands
        of clients to look at.
        """
        now, mine = time.monotonic(), self._shares.get(client, _NOTHING).amount + own
        if now < self._bound_until and mine <= self._bound_for and self._bound + own <= most:
            return self._bound + own
        amount = self._fair(client, attrgetter("amount"), own)
        self._bound_until, self._bound_for = now + _CLOSED_SECONDS, mine
        self._bound = amount - own
        return amount

    def _fair(self, client: Hashable, work: Callable[[_Share], float], own: float) -> float:
        """Returns the work that ends no later than a client's, if it gets `own` more."""
        mine = work(self._shares.get(client, _NOTHING)) + own
        # Its own share is one of them: no more than `mine`, and counted once.
        everybody = sum([min(work(share), mine) for share in self._shares.values()])
        return everybody + own

    def _refuse(self, refusal: Refusal, reason: str, missing: float) -> NoReturn:
        raise OverloadedError(
            f"{reason}: come back later, or try another replica.",
            refusal=refusal,
            retry_after=missing / self._workers,
        )
