"""Decides who may wait by tokens, time and client, and how much work a request may have."""

import contextlib
import sys
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from service.errors import OverloadedError, Refusal, TooMuchWorkError
from service.metrics import EXPLICIT, FUSED, GRADIENT
from service.queue.admission import Admission, Rate, WorkLimits
from service.queue.scheduler import ClientId, Item, Schedule, Weight
from tests.matching import exactly
from tests.service.queueing import request_of

SECONDS = 0.01  # of a worker, for a token


class Door:
    """An admission before a schedule of passes of 100 tokens."""

    def __init__(
        self,
        *,
        max_queue_tokens: int = sys.maxsize,
        workers: int = 2,
        limits: WorkLimits | None = None,
    ) -> None:
        self.schedule = Schedule(100)
        self.admission = Admission(
            self.schedule,
            limits or WorkLimits(),
            workers=workers,
            max_batch_tokens=100,
            max_queue_tokens=max_queue_tokens,
        )
        self.rate = self.admission.rate
        self.rate.note(100, 100 * SECONDS, full=True)

    def has(self, client: str, *tokens: int, cost: float = 1.0) -> list[Item]:
        """Gives a client a request that waits, and returns its items."""
        request, items = request_of(*tokens, client=client, cost=cost, route="/predict")
        self.admission.admit(request, 1e9)
        self.schedule.add(request, items)
        return items

    def end(self, *items: Item, answered: bool = False) -> None:
        """Does work of one request, or drops what still waits of it."""
        request = items[0].request
        self.admission.leave(request, self.schedule.drop(request), answered=answered)

    def compute(self) -> list[Item]:
        """Does the work of the next batch."""
        items = self.schedule.take()
        for item in items:
            self.admission.note_done(item)
        return items

    def admits(self, client: str, tokens: int, seconds: float = 10.0) -> bool:
        request, _ = request_of(tokens, client=client)
        with contextlib.suppress(OverloadedError):
            self.admission.admit(request, seconds)
            self.admission.leave(request, tokens, answered=False)
            return True
        return False

    def opens(self, client: str, *, now: float = 0.0, ahead: int = 0) -> bool:
        with contextlib.suppress(OverloadedError):
            self.admission.check_room(client, "/predict", 10.0, now=now, ahead=ahead)
            return True
        return False

    def answer(self, client: str, tokens: int) -> None:
        """Lets one request in, does its work, and answers it."""
        items = self.has(client, tokens)
        self.compute()
        self.end(*items, answered=True)


def test_time_lost_before_its_turn_refuses_what_an_idle_replica_cannot_end() -> None:
    pace = {FUSED: SECONDS}
    door = Door(limits=WorkLimits(pace, cores=2, max_batch_tokens=100))
    door.rate.note(100, 100.0, full=True)  # lately it was slow, which does not count
    request, _ = request_of(1400)
    request.caller = ClientId("a", seconds=10.0)
    door.admission.admit(request, 7.0)
    door.admission.leave(request, 1400, answered=False)
    with pytest.raises(OverloadedError) as caught:
        door.admission.admit(request, 4.2)
    assert caught.value.refusal is Refusal.DEADLINE
    assert caught.value.detail == (
        "The request takes 7 seconds of work, and 4.2 are left of its 10: come back later, or try "
        "another replica."
    )
    assert caught.value.retry_after == 3  # 2.8, in whole seconds
    small, _ = request_of(3)  # may always be tried; it ends as `timeout` then
    small.caller = ClientId("a", seconds=1e-9)
    door.admission.admit(small, -0.01)


def test_what_would_end_too_late_is_refused() -> None:
    door = Door()
    door.has("a", 1000)
    assert door.admits("a", 400)
    message = (
        "5 seconds of work are waiting, the request takes 2.5, and 7 can be computed in the time "
        "that it has: come back later, or try another replica."
    )
    with pytest.raises(OverloadedError, match=exactly(message)) as caught:
        door.admission.admit(request_of(500, client="a")[0], 10.0)
    assert (caught.value.refusal, caught.value.retry_after) == (Refusal.DEADLINE, 1)


def test_what_the_queue_has_no_room_for_is_refused_however_fast_it_would_go() -> None:
    door = Door(max_queue_tokens=1000)
    door.has("a", 900)
    door.has("b", 100)
    assert not door.admits("a", 100, 1000.0)
    assert door.admits("c", 400, 1000.0)  # before it, `a` gets 400 too
    message = (
        "551 tokens are waiting, the request has 451, and the queue holds 1000: come back later, "
        "or try another replica."
    )
    with pytest.raises(OverloadedError, match=exactly(message)) as caught:
        door.admission.admit(request_of(451, client="c")[0], 1000.0)
    assert (caught.value.refusal, caught.value.retry_after) == (Refusal.QUEUE_FULL, 1)


@given(
    st.dictionaries(st.sampled_from("abcde"), st.integers(1, 3000)),
    st.integers(1, 1400),
    st.floats(0.1, 100),
)
def test_the_rule_is_that_of_fair_sharing(
    shares: dict[str, int], tokens: int, seconds: float
) -> None:
    door = Door()
    for client, waiting in shares.items():
        door.has(client, waiting)
    mine = shares.get("a", 0) + tokens
    before = sum(min(waiting, mine) for client, waiting in shares.items() if client != "a")
    most = 0.7 * seconds * 2
    if abs((mine + before) * SECONDS - most) > 1e-6:
        fits = not shares or (mine + before) * SECONDS < most
        assert door.admits("a", tokens, seconds) is fits


def test_work_counts_until_it_is_done_or_dropped() -> None:
    door = Door()
    items = door.has("a", 700, 700)
    door.compute()
    assert door.admits("a", 700)
    (item,) = door.schedule.take()
    door.end(*items)  # gone, but 700 are in a pass
    assert not door.admits("a", 701)
    door.admission.note_done(item)
    assert not door.admission._shares
    assert door.admits("a", 1400)


@pytest.mark.parametrize(
    ("path", "tokens", "cost", "others", "weight"),
    [
        (FUSED, 256, 1.0, 256, Weight.LIGHT),
        (FUSED, 257, 1.0, 0, Weight.HEAVY),
        (FUSED, 129, 2.0, 0, Weight.HEAVY),
        (FUSED, 1, 1.0, 257, Weight.HEAVY),
        (GRADIENT, 1, 1.0, 0, Weight.GRADIENT),
        (GRADIENT, 0, 1.0, 0, Weight.HEAVY),
    ],
)
def test_a_small_request_of_a_client_that_asks_for_little_is_light(
    path: Any,  # noqa: ANN401
    tokens: int,
    cost: float,
    others: int,
    weight: Weight,
) -> None:
    door = Door()
    if others:
        door.has("a", others)
    request, _ = request_of(tokens, client="a", path=path, cost=cost)
    door.admission.admit(request, 1e9)
    assert request.weight is weight


@pytest.mark.parametrize(
    ("usual", "waiting", "client", "ahead", "opens"),
    [
        (40, {"a": 1259}, "a", 0, True),  # 40 more, and a pass to spare
        (40, {"a": 1261}, "a", 0, False),
        (40, {"a": 1261}, "b", 0, True),
        (100_000, {}, "b", 999, True),  # the queue is empty
        (1400, {"attacker": 1400, "other": 20}, "polite", 7, True),  # large ones let small ones in
        (50, {"b": 1}, "c", 24, True),  # those that are not read yet count
        (50, {"b": 1}, "c", 26, False),
    ],
)
def test_the_door_is_open_while_the_usual_request_of_a_client_has_room(
    usual: int, waiting: dict[str, int], client: str, ahead: int, opens: bool
) -> None:
    door = Door()
    for _ in range(200):
        door.answer("attacker", usual)
    for name, tokens in waiting.items():
        door.has(name, tokens)
    assert door.opens(client, ahead=ahead) is opens


def test_a_closed_door_looks_again_after_10_milliseconds() -> None:
    door = Door()
    door.has("a", 1500)
    assert not door.opens("a", now=5.0)
    for _ in range(200):
        door.rate.note(100, 0.1, full=True)  # passes are ten times faster now
    assert not door.opens("a", now=5.009)
    assert door.opens("b", now=5.009)  # what is smaller may come in
    assert door.opens("a", now=5.02)


def test_work_that_waits_counts_by_what_it_costs_now() -> None:
    door = Door(workers=1)
    door.has("a", 100)
    door.has("b", 100)
    assert door.admits("c", 50, seconds=10.0)
    for _ in range(20):
        door.rate.note(100, 10.0, full=True)
    assert not door.admits("c", 50, seconds=10.0)


@pytest.mark.parametrize(("workers", "seconds"), [(1, 3.0), (2, 1.5)])
def test_the_backlog_is_the_work_of_all_clients_over_the_measured_rate(
    workers: int, seconds: float
) -> None:
    door = Door(workers=workers)
    assert door.admission.seconds == 0
    items = [*door.has("a", 100), *door.has("b", 100, cost=2.0)]
    assert door.admission.seconds == pytest.approx(seconds)
    batch = door.schedule.take()
    assert door.admission.seconds == pytest.approx(seconds)  # it is computed, and not done
    for item in batch:
        door.admission.note_done(item)
    assert door.admission.seconds == pytest.approx(seconds * 2 / 3)
    door.compute()
    for item in items:
        door.end(item, answered=True)
    assert door.admission.seconds == 0


def test_a_pass_that_could_have_held_more_costs_as_much_as_48_tokens_more() -> None:
    rate = Rate()
    assert rate.seconds == 0.0  # nothing is known
    rate.note(500, 1.0, full=True)
    assert rate.seconds == 1 / 500
    small = Rate()
    small.note(2, 0.1, full=False)  # a replica that is rarely asked does not look slow
    assert small.seconds == 1 / 500


@pytest.mark.parametrize(
    ("passes", "seconds", "tolerance"),
    [
        ([0.1] * 100 + [0.2] * 200, 0.002, 0.05),  # the last seconds count most
        ([0.1] * 100 + [60.0], 0.001, 4.0),  # the process was stopped
        ([0.1] * 100 + [60.0] + [0.1] * 80, 0.001, 0.1),
        ([0.1] * 100 + [10.0] * 6, 0.1, 0.1),  # it has become a hundred times slower
    ],
)
def test_a_token_costs_what_it_took_lately(
    passes: list[float], seconds: float, tolerance: float
) -> None:
    rate = Rate()
    for each in passes:
        rate.note(100, each, full=True)
    assert rate.seconds == pytest.approx(seconds, rel=tolerance)


LIMITS = WorkLimits(
    {FUSED: 0.01, EXPLICIT: 0.02, GRADIENT: 0.05},
    cores=2,
    max_length=32,
    max_batch_tokens=100,
    max_queue_tokens=2000,
)


@pytest.mark.parametrize(
    ("path", "seconds", "most"),
    [
        (FUSED, 10.0, 1400),  # 0.7 of 10 seconds on two cores
        (EXPLICIT, 10.0, 700),
        (GRADIENT, 10.0, 256),  # 280, in whole rows of 32
        (FUSED, 0.1, 100),  # a pass
        (GRADIENT, 0.1, 96),  # three rows: one step, the text and its baseline
        (FUSED, 100.0, 2000),  # what the queue holds
        (GRADIENT, 100.0, 1984),
    ],
)
def test_the_most_tokens(path: str, seconds: float, most: int) -> None:
    assert LIMITS.most_tokens(path, seconds) == most  # type: ignore[arg-type]


def test_an_idle_replica_computes_on_all_cores_and_always_tries_a_pass() -> None:
    assert LIMITS.seconds(FUSED, 1400) == 7.0
    assert [LIMITS.seconds(FUSED, 100), LIMITS.seconds(GRADIENT, 96)] == [0.0, 0.0]


def test_a_text_by_itself_is_a_pass_and_what_is_not_measured_has_no_limit() -> None:
    assert WorkLimits({FUSED: 1.0}, max_length=32, max_batch_tokens=8).most_tokens(FUSED, 1) == 32
    WorkLimits().check(FUSED, 10**9, 0.001)


@given(st.integers(1, 32), st.floats(0.01, 1000))
def test_the_steps_of_the_longest_text_say_those_of_every_text(length: int, seconds: float) -> None:
    steps = LIMITS.most_steps(32, seconds)
    assert LIMITS.most_steps(length, seconds) == (steps + 2) * 32 // length - 2
    assert steps >= 1


def test_beyond_it_the_error_says_what_fits() -> None:
    LIMITS.check(FUSED, 1400, 10.0)
    with pytest.raises(TooMuchWorkError) as caught:
        LIMITS.check(FUSED, 1401, 10.0)
    assert caught.value.problem() == {
        "type": "/problems/too-much-work",
        "title": "The request is too much work",
        "status": 413,
        "detail": "The request takes 1401 tokens through the network, and a request that has 10 "
        "seconds may take at most 1400: send fewer or shorter texts at once.",
        "fits": {"tokens": 1400},
    }
    LIMITS.check_steps(14, 16, 10.0)
    with pytest.raises(TooMuchWorkError) as caught:
        LIMITS.check_steps(15, 16, 10.0)
    assert caught.value.fits == {"steps": 14}
    assert caught.value.detail == (
        "15 steps are too many for a text of 16 tokens, and a request that has 10 seconds may take "
        "at most 14: ask for fewer, or shorten it."
    )
