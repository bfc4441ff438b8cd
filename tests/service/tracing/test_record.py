"""What is noted of a request, and what is not."""

import threading

import pytest

from service.tracing.record import MOST_STAGES, Stage, Trace


def test_an_error_is_noted_by_its_type_and_goes_on() -> None:
    trace = Trace()
    with pytest.raises(KeyError, match="secret"), trace.begin(Stage("forward")) as found:
        raise KeyError("secret")
    assert found.error == "KeyError"
    assert found.ended is not None


def test_a_pass_ends_the_wait_before_it() -> None:
    trace = Trace()
    trace.begin_waiting()
    first = trace.stages[0]
    for later in (7, 9):
        trace.begin_pass(first.began + later, {})
    assert (first.ended, trace.passes) == (first.began + 7, 2)
    trace.begin_waiting()
    again = trace.stages[-1]
    # A pass notes its beginning as a float, which may be rounded down.
    trace.begin_pass(again.began - 5, {})
    assert again.ended == again.began
    names = [each.name for each in trace.stages]
    assert names == ["wait", "forward", "forward", "wait", "forward"]


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
