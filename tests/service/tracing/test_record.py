"""What is noted of a request, and what is not."""

import threading

import pytest

from service.tracing.record import (
    CURRENT,
    MOST_STAGES,
    NOTHING,
    Stage,
    Trace,
    ids_of,
    stage,
)


def test_nothing_is_noted_of_a_request_that_is_not_traced() -> None:
    assert CURRENT.get() is None
    assert stage("tokenize", 1) is NOTHING
    assert ids_of({}) == {}


def test_a_stage_of_the_current_request() -> None:
    trace = Trace()
    token = CURRENT.set(trace)
    try:
        with stage("tokenize", 3):
            assert trace.stages[0].ended is None
    finally:
        CURRENT.reset(token)
    [found] = trace.stages
    assert (found.name, found.attributes, found.fault) == ("tokenize", {"headlight.texts": 3}, None)
    assert found.ended is not None
    assert found.ended >= found.began


def test_an_error_is_noted_by_its_type_and_goes_on() -> None:
    trace = Trace()
    with pytest.raises(KeyError, match="secret"), trace.begin(Stage("forward")) as found:
        raise KeyError("secret")
    assert found.fault == "KeyError"
    assert found.ended is not None


def test_the_first_pass_ends_the_wait() -> None:
    trace = Trace()
    trace.begin_waiting()
    wait = trace.stages[0]
    assert wait.ended is None
    trace.begin_pass(wait.began + 7, {})
    trace.begin_pass(wait.began + 9, {})
    assert wait.ended == wait.began + 7
    assert [each.name for each in trace.stages] == ["wait", "forward", "forward"]
    assert trace.passes == 2


def test_a_wait_never_ends_before_it_began() -> None:
    """A pass notes its beginning as a float, which may be rounded down."""
    trace = Trace()
    trace.begin_waiting()
    trace.begin_pass(trace.stages[0].began - 5, {})
    assert trace.stages[0].ended == trace.stages[0].began


def test_a_second_wait_of_the_same_request() -> None:
    trace = Trace()
    for _ in range(2):
        trace.begin_waiting()
        trace.begin_pass(trace.stages[-1].began + 1, {})
    assert [each.name for each in trace.stages] == ["wait", "forward"] * 2
    assert [each.ended is None for each in trace.stages] == [False, True] * 2


def test_more_passes_than_are_kept_are_counted() -> None:
    trace = Trace()
    threads = [
        threading.Thread(target=lambda: [trace.begin_pass(0, {}) for _ in range(100)])
        for _ in range(4)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert (len(trace.stages), trace.passes) == (MOST_STAGES, 400)
