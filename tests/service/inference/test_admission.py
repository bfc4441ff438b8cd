"""Who may wait, by tokens and by time."""

import contextlib
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from service.errors import OverloadedError
from service.inference.admission import Admission, Throughput
from tests.matching import exactly


def working(tokens_per_second: float, *, max_queue_tokens: int = 1000) -> Admission:
    """An admission that has seen a queue stand for a second."""
    admission = Admission(max_queue_tokens)
    admission.throughput.note(10.0, tokens=1, waiting=True)
    admission.throughput.note(11.0, tokens=int(tokens_per_second), waiting=True)
    return admission


def test_the_rate_is_that_of_a_standing_queue() -> None:
    throughput = Throughput()
    assert throughput.tokens_per_second is None
    throughput.note(0.0, tokens=500, waiting=False)  # a pass after which nothing waits
    throughput.note(7.0, tokens=500, waiting=True)  # since when, nobody knows
    assert throughput.tokens_per_second is None
    throughput.note(9.0, tokens=500, waiting=True)
    assert throughput.tokens_per_second == pytest.approx(250.0)
    throughput.note(9.5, tokens=125, waiting=False)  # the queue ran dry somewhere in between
    throughput.note(50.0, tokens=125, waiting=True)
    assert throughput.tokens_per_second == pytest.approx(250.0)


def test_the_last_seconds_count_most() -> None:
    throughput = Throughput()
    for second in range(100):
        throughput.note(float(second), tokens=1000, waiting=True)
    for second in range(100, 120):
        throughput.note(float(second), tokens=100, waiting=True)
    rate = throughput.tokens_per_second
    assert rate is not None
    assert 100 < rate < 130


def test_a_process_that_was_stopped_is_not_held_to_be_slow() -> None:
    throughput = Throughput()
    for tenth in range(100):
        throughput.note(tenth / 10, tokens=100, waiting=True)
    throughput.note(70.0, tokens=100, waiting=True)  # a minute later
    stopped = throughput.tokens_per_second
    for tenth in range(20):
        throughput.note(70.1 + tenth / 10, tokens=100, waiting=True)
    afterwards = throughput.tokens_per_second

    assert stopped is not None
    assert afterwards is not None
    assert 250 < stopped < 1000
    assert 500 < afterwards < 1000


def test_a_network_that_has_become_a_hundred_times_slower_is_soon_known() -> None:
    throughput = Throughput()
    for tenth in range(100):
        throughput.note(tenth / 10, tokens=100, waiting=True)
    for pass_ in range(1, 6):
        throughput.note(10.0 + 10 * pass_, tokens=100, waiting=True)

    assert throughput.tokens_per_second == pytest.approx(10.0, rel=0.3)


@given(st.integers(0, 2000), st.integers(0, 500), st.integers(1, 2000), st.floats(-1, 100))
def test_one_request_is_judged_as_many_of_the_same_tokens(
    waiting: int, computing: int, tokens: int, seconds: float
) -> None:
    admission = working(100.0)
    in_time = max(100 * 0.7 * max(seconds, 0) - computing, 0)
    fits = waiting + tokens <= 1000 and (not waiting or waiting + tokens <= in_time)
    try:
        admission.check(tokens, waiting=waiting, computing=computing, seconds=seconds)
    except OverloadedError:
        assert not fits
    else:
        assert fits


def test_before_anything_is_known_the_queue_alone_decides() -> None:
    admission = Admission(1000)
    admission.check(500, waiting=500, computing=0, seconds=0.001)
    message = exactly(
        "500 tokens are waiting, the request has 501, and the queue holds 1000: come back later, "
        "or try another replica."
    )
    with pytest.raises(OverloadedError, match=message) as refused:
        admission.check(501, waiting=500, computing=0, seconds=math.inf)
    assert refused.value.retry_after == 1


def test_what_cannot_be_done_in_time_is_refused_with_the_time_until_it_could() -> None:
    admission = working(100.0)
    admission.check(60, waiting=80, computing=0, seconds=2.0)
    message = exactly(
        "480 tokens are waiting, the request has 60, and 140 can be computed in the time that it "
        "has: come back later, or try another replica."
    )
    with pytest.raises(OverloadedError, match=message) as refused:
        admission.check(60, waiting=480, computing=0, seconds=2.0)
    assert refused.value.retry_after == 4  # 400 tokens too many


def test_what_is_in_a_pass_takes_its_time_too() -> None:
    admission = working(100.0)
    admission.check(60, waiting=30, computing=50, seconds=2.0)
    message = exactly(
        "30 tokens are waiting, the request has 60, and 89 can be computed in the time that it "
        "has: come back later, or try another replica."
    )
    with pytest.raises(OverloadedError, match=message):
        admission.check(60, waiting=30, computing=51, seconds=2.0)
    with pytest.raises(OverloadedError):
        admission.check_room(waiting=30, computing=110, seconds=2.0)


def test_where_nothing_waits_everything_may_try() -> None:
    working(1.0).check(1000, waiting=0, computing=0, seconds=0.5)


def test_before_it_is_read_a_request_is_judged_by_the_usual_size() -> None:
    admission = Admission(1000)
    for _ in range(200):
        admission.check(30, waiting=0, computing=0, seconds=1.0)
    admission.check_room(waiting=969, computing=0, seconds=1.0)
    message = exactly(
        "971 tokens are waiting, and the queue holds 1000: come back later, or try another replica."
    )
    with pytest.raises(OverloadedError, match=message) as refused:
        admission.check_room(waiting=971, computing=0, seconds=1.0)
    assert refused.value.retry_after == 1


def test_before_it_is_read_a_request_is_let_in_where_nothing_waits() -> None:
    admission = Admission(10)
    for _ in range(200):
        with contextlib.suppress(OverloadedError):
            admission.check(500, waiting=0, computing=0, seconds=1.0)
    admission.check_room(waiting=0, computing=0, seconds=0.0)


def test_those_let_in_before_it_count_before_they_wait() -> None:
    admission = Admission(1000)
    for _ in range(200):
        admission.check(30, waiting=0, computing=0, seconds=1.0)
    admission.check_room(waiting=900, computing=0, ahead=2, seconds=1.0)
    message = exactly(
        "990 tokens are waiting, and the queue holds 1000: come back later, or try another replica."
    )
    with pytest.raises(OverloadedError, match=message):
        admission.check_room(waiting=900, computing=0, ahead=3, seconds=1.0)
