"""Decides who may wait by tokens, time and client, and measures what a token costs."""

import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from service.errors import OverloadedError, Refusal
from service.queue.admission import Admission, ClientId, Cost, RequestCost
from tests.matching import exactly

SECONDS = 0.01  # of a worker, for a token


def make(*, max_queue_tokens: int = 10_000, workers: int = 2) -> Admission:
    cost = Cost()
    cost.note(100, 100 * SECONDS, full=True)
    return Admission(max_queue_tokens, workers=workers, max_batch_tokens=100, cost=cost)


def work(tokens: int) -> RequestCost:
    return RequestCost(tokens, tokens)


def has(admission: Admission, client: str, tokens: int) -> None:
    """Gives a client work that is not done."""
    admission.begin(client, work(tokens))


def done(admission: Admission, client: str, tokens: int) -> None:
    admission.take(client, tokens)
    admission.end(client, tokens, tokens)


def admits(admission: Admission, client: str, tokens: int, seconds: float = 10.0) -> bool:
    with contextlib.suppress(OverloadedError):
        admission.check(ClientId(client), work(tokens), seconds)
        return True
    return False


def opens(admission: Admission, client: str, *, now: float = 0.0, ahead: int = 0) -> bool:
    with contextlib.suppress(OverloadedError):
        admission.check_room(ClientId(client, "/predict"), 10.0, now=now, ahead=ahead)
        return True
    return False


def answer(admission: Admission, client: str, tokens: int) -> None:
    """Lets one request in, does its work, and answers it."""
    admission.begin(client, work(tokens))
    done(admission, client, tokens)
    admission.leave(ClientId(client, "/predict"), work(tokens), answered=True)


def test_time_lost_before_its_turn_refuses_what_an_idle_replica_cannot_end() -> None:
    caller, large = ClientId("a", seconds=10.0), RequestCost(1400, 1400, seconds=7.0)
    admission = make()
    admission.check(caller, large, 7.0)
    with pytest.raises(OverloadedError) as caught:
        admission.check(caller, large, 4.2)
    assert caught.value.refusal is Refusal.DEADLINE
    assert caught.value.detail == (
        "The request takes 7 seconds of work, and 4.2 are left of its 10: come back later, or try "
        "another replica."
    )
    assert caught.value.retry_after == 3  # 2.8, in whole seconds


def test_an_idle_replica_admits_by_its_pace_at_the_start_alone() -> None:
    cost = Cost()
    cost.note(100, 100.0, full=True)  # lately it was slow
    admission = Admission(10_000, workers=2, max_batch_tokens=100, cost=cost)
    admission.check(ClientId("a"), RequestCost(1400, 1400, seconds=7.0), 10.0)


def test_what_may_always_be_tried_is_tried_after_its_deadline_too() -> None:
    """It ends as `timeout` then, like one whose time runs out a moment later."""
    make().check(ClientId("a", seconds=1e-9), work(3), -0.01)


def test_what_would_end_too_late_is_refused() -> None:
    admission = make()
    has(admission, "a", 1000)
    assert admits(admission, "a", 400)
    message = (
        "5 seconds of work are waiting, the request takes 2.5, and 7 can be computed in the time "
        "that it has: come back later, or try another replica."
    )
    with pytest.raises(OverloadedError, match=exactly(message)) as caught:
        admission.check(ClientId("a"), work(500), 10.0)
    assert (caught.value.refusal, caught.value.retry_after) == (Refusal.DEADLINE, 1)


def test_what_the_queue_has_no_room_for_is_refused() -> None:
    admission = make(max_queue_tokens=1000)
    has(admission, "a", 900)
    assert admits(admission, "a", 100, seconds=100.0)
    message = (
        "900 tokens are waiting, the request has 101, and the queue holds 1000: come back later, "
        "or try another replica."
    )
    with pytest.raises(OverloadedError, match=exactly(message)) as caught:
        admission.check(ClientId("a"), work(101), 100.0)
    assert (caught.value.refusal, caught.value.retry_after) == (Refusal.QUEUE_FULL, 1)


@given(
    st.dictionaries(st.sampled_from("abcde"), st.integers(1, 3000)),
    st.integers(1, 1400),
    st.floats(0.1, 100),
)
def test_the_rule_is_that_of_fair_sharing(
    shares: dict[str, int], tokens: int, seconds: float
) -> None:
    admission = make(max_queue_tokens=10**9)
    for client, waiting in shares.items():
        has(admission, client, waiting)
    mine = shares.get("a", 0) + tokens
    before = sum(min(waiting, mine) for client, waiting in shares.items() if client != "a")
    most = 0.7 * seconds * 2
    if abs((mine + before) * SECONDS - most) > 1e-6:
        fits = not shares or (mine + before) * SECONDS < most
        assert admits(admission, "a", tokens, seconds) is fits


def test_work_counts_until_it_is_done_or_dropped() -> None:
    admission = make()
    has(admission, "a", 1400)
    done(admission, "a", 700)
    assert admits(admission, "a", 700)
    admission.leave(ClientId("a"), work(1400), answered=False)  # gone, but 700 are in a pass
    assert not admits(admission, "a", 701)
    done(admission, "a", 700)
    assert admission.tokens_of("a") == 0
    assert admits(admission, "a", 1400)


def test_the_gate_closes_for_a_client_whose_usual_request_has_no_room() -> None:
    admission = make()
    for _ in range(200):
        answer(admission, "a", 40)
    has(admission, "a", 1259)  # 40 more, and a pass to spare
    assert opens(admission, "a")
    has(admission, "a", 2)
    assert not opens(admission, "a")
    assert opens(admission, "b")


def test_with_an_empty_queue_the_gate_is_open() -> None:
    admission = make()
    for _ in range(200):
        answer(admission, "a", 100_000)
    assert all(opens(admission, "b", ahead=ahead) for ahead in range(1000))


def test_large_requests_do_not_close_the_gate_for_small_ones() -> None:
    admission = make()
    for _ in range(200):
        answer(admission, "attacker", 1400)  # the usual request now has 1,400 tokens
    has(admission, "attacker", 1400)
    has(admission, "other", 20)
    assert all(opens(admission, "polite", ahead=ahead) for ahead in range(8))
    assert admits(admission, "polite", 20)


def test_refused_requests_do_not_change_what_is_usual() -> None:
    admission = make()
    has(admission, "a", 1000)
    for _ in range(200):
        assert not admits(admission, "a", 1000)
    assert all(opens(admission, "b", ahead=ahead) for ahead in range(100))


def test_requests_that_are_not_read_yet_count() -> None:
    admission = make()
    for _ in range(200):
        answer(admission, "a", 50)
    has(admission, "b", 1)
    assert opens(admission, "c", ahead=24)
    assert not opens(admission, "c", ahead=26)


def test_a_closed_gate_looks_again_after_10_milliseconds() -> None:
    admission = make()
    has(admission, "a", 1500)
    assert not opens(admission, "a", now=5.0)
    done(admission, "a", 1500)
    admission.leave(ClientId("a"), work(1500), answered=False)
    has(admission, "b", 1)
    has(admission, "a", 1500)
    done(admission, "a", 1400)
    assert opens(admission, "b", now=5.005)  # what is smaller may come in
    assert opens(admission, "a", now=5.02)


def test_work_that_waits_counts_by_what_it_costs_now() -> None:
    cost = Cost()
    cost.note(100, 0.001, full=True)
    admission = Admission(10_000, workers=1, max_batch_tokens=100, cost=cost)
    has(admission, "a", 100)
    has(admission, "b", 100)
    assert admits(admission, "c", 50, seconds=1.0)
    for _ in range(20):
        cost.note(100, 1.0, full=True)
    assert not admits(admission, "c", 50, seconds=1.0)


@pytest.mark.parametrize(("workers", "seconds"), [(1, 3.0), (2, 1.5)])
def test_the_backlog_is_the_work_of_all_clients_over_the_measured_rate(
    workers: int, seconds: float
) -> None:
    admission = make(workers=workers)
    assert admission.seconds == 0
    admission.begin("a", RequestCost(100, 100))
    admission.begin("b", RequestCost(100, 200))  # a token of it costs twice
    assert admission.seconds == pytest.approx(seconds)
    admission.take("a", 100)
    assert admission.seconds == pytest.approx(seconds)  # it is being computed, and not done
    admission.end("a", 100, 100)
    assert admission.seconds == pytest.approx(seconds * 2 / 3)
    admission.leave(ClientId("a"), RequestCost(100, 100), answered=True)
    admission.take("b", 100)
    admission.end("b", 100, 200)
    admission.leave(ClientId("b"), RequestCost(100, 200), answered=True)
    assert admission.seconds == 0


def test_a_pass_that_could_have_held_more_costs_as_much_as_48_tokens_more() -> None:
    cost = Cost()
    assert cost.per_token == 0.0  # nothing is known
    cost.note(500, 1.0, full=True)
    assert cost.per_token == 1 / 500
    small = Cost()
    small.note(2, 0.1, full=False)  # a replica that is rarely asked does not look slow
    assert small.per_token == 1 / 500


@pytest.mark.parametrize(
    ("passes", "per_token", "tolerance"),
    [
        ([0.1] * 100 + [0.2] * 200, 0.002, 0.05),  # the last seconds count most
        ([0.1] * 100 + [60.0], 0.001, 4.0),  # the process was stopped
        ([0.1] * 100 + [60.0] + [0.1] * 80, 0.001, 0.1),
        ([0.1] * 100 + [10.0] * 6, 0.1, 0.1),  # it has become a hundred times slower
    ],
)
def test_a_token_costs_what_it_took_lately(
    passes: list[float], per_token: float, tolerance: float
) -> None:
    cost = Cost()
    for seconds in passes:
        cost.note(100, seconds, full=True)
    assert cost.per_token == pytest.approx(per_token, rel=tolerance)
