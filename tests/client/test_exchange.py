"""Attempts, pauses and the deadline, with a clock that only the test moves."""

import httpx
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headlight_client import (
    HeadlightError,
    NoAnswerError,
    ProblemError,
    ServiceTimedOutError,
    TimedOutError,
    UnavailableError,
    UnexpectedAnswerError,
)
from headlight_client.answers import Answer
from headlight_client.calls import is_ready
from tests.client.played import (
    CALL,
    DONE,
    REFUSED,
    Clock,
    Outcome,
    client_config,
    play,
    unavailable,
)


def test_the_first_answer_is_the_result() -> None:
    result, sends, waits = play(CALL, client_config(), lambda _: DONE)
    assert (result, waits) == (b"done", [])
    (sent,) = sends
    assert (sent.method, str(sent.url), sent.content) == (
        *("POST", "http://there:8000/predict"),
        b"{}",
    )
    assert sent.headers["User-Agent"] == "headlight-client/0.1.0"
    assert sent.headers["X-Request-Timeout"] == "30.000"
    assert sent.headers["Accept"] == sent.headers["Content-Type"] == "application/json"
    assert sent.extensions["timeout"] == {"connect": 5.0, "read": 30.0, "write": 30.0, "pool": 28.5}


@pytest.mark.parametrize(
    "failure",
    [
        REFUSED,
        httpx.ConnectTimeout("slow"),
        httpx.ReadError("reset"),
        httpx.RemoteProtocolError("closed"),
        unavailable(),
        unavailable(status=502),
        unavailable(status=429),
        Answer(429, httpx.Headers(), b"slow down"),
        Answer(503, httpx.Headers(), b"<html>no server</html>"),
    ],
)
def test_what_is_asked_again(failure: Outcome) -> None:
    clock = Clock(attempt=1.0)
    outcomes = [failure, failure, DONE]
    result, sends, waits = play(CALL, client_config(clock), lambda at: outcomes[at])
    assert result == b"done"
    assert waits == [0.25 * 0.75, 0.5 * 0.75]
    # All attempts of a call have one name.
    assert len({send.headers["X-Request-ID"] for send in sends}) == 1
    # The service hears what is left, rounded down.
    left = [send.headers["X-Request-Timeout"] for send in sends]
    assert left == ["30.000", "28.812", "27.437"]
    assert [send.extensions["timeout"]["read"] for send in sends] == [30.0, 28.8125, 27.4375]


@pytest.mark.parametrize(
    ("outcome", "kind"),
    [
        *((unavailable(status=status), ProblemError) for status in (400, 401, 404, 413, 422, 500)),
        (unavailable(status=504), ServiceTimedOutError),
        (Answer(504, httpx.Headers(), b""), ServiceTimedOutError),
        (Answer(307, httpx.Headers(), b""), UnexpectedAnswerError),
        (httpx.ReadTimeout("slow"), TimedOutError),
        (httpx.PoolTimeout("busy"), TimedOutError),
        (httpx.DecodingError("not gzip"), UnexpectedAnswerError),
    ],
)
def test_what_is_not_asked_again(outcome: Outcome, kind: type[HeadlightError]) -> None:
    error, sends, waits = play(CALL, client_config(), lambda _: outcome)
    assert isinstance(error, kind)
    assert (len(sends), waits) == (1, [])


def test_the_error_of_the_last_attempt_is_raised() -> None:
    outcomes: list[Outcome] = [unavailable(7), REFUSED, unavailable(9)]
    error, sends, waits = play(CALL, client_config(), lambda at: outcomes[at])
    assert isinstance(error, UnavailableError)
    assert error.retry_after == 9
    assert len(sends) == 3
    assert waits == [7 + 0.25 * 0.5, 0.5 * 0.75]


@pytest.mark.parametrize(
    ("outcome", "kind", "says", "names_request"),
    [
        (REFUSED, NoAnswerError, "refused; does a service run there?", False),
        (httpx.ConnectTimeout("slow"), NoAnswerError, "check base_url and the network", False),
        (httpx.ReadError("reset"), NoAnswerError, "reset; does a service run there?", True),
        (httpx.ReadTimeout("slow"), TimedOutError, "gave no answer within 30 s", True),
        (httpx.PoolTimeout(""), TimedOutError, "connections to http://there:8000", False),
        (httpx.DecodingError("not gzip"), UnexpectedAnswerError, "be read: not gzip", False),
    ],
)
def test_the_message_without_an_answer(
    outcome: httpx.RequestError, kind: type[HeadlightError], says: str, names_request: bool
) -> None:
    error, (sent,), _ = play(CALL, client_config(retries=0), lambda _: outcome)
    assert type(error) is kind
    assert says in str(error)
    assert "http://there:8000" in str(error)
    # Only a request that the service may have received can be found in its log.
    request_id = sent.headers["X-Request-ID"]
    assert str(error).endswith(f"(request {request_id})") is names_request
    assert error.request_id == request_id
    assert error.__cause__ is outcome


@pytest.mark.parametrize("theirs", [{}, {"X-Request-ID": "theirs"}])
def test_an_answer_that_cannot_be_read(theirs: dict[str, str]) -> None:
    page = Answer(200, httpx.Headers(theirs), b"<html>a page</html>")
    error, (sent,), _ = play(is_ready(), client_config(), lambda _: page)
    assert type(error) is UnexpectedAnswerError
    assert str(error) == (
        "an answer of http://there:8000 with status 200 cannot be read: a Headlight service must "
        "be there, of a version that this client knows"
    )
    assert error.request_id == theirs.get("X-Request-ID", sent.headers["X-Request-ID"])


def test_many_attempts_wait_the_longest_pause() -> None:
    config = client_config(timeout=1e8, retries=1100, draw=1.0)
    _, sends, waits = play(CALL, config, lambda _: REFUSED)
    assert len(sends) == 1101
    assert waits == [0.25, 0.5, 1.0, 2.0, 4.0] + [8.0] * 1095


def test_a_pause_that_lasts_too_long_is_the_end() -> None:
    clock = Clock(asleep=6.0)  # the machine slept
    error, sends, waits = play(CALL, client_config(clock, timeout=5.0), lambda _: REFUSED)
    assert isinstance(error, NoAnswerError)
    assert (len(sends), waits) == (1, [0.1875])


@given(
    timeout=st.floats(0.01, 100.0),
    retries=st.integers(0, 8),
    attempt=st.floats(0.0, 30.0),
    draw=st.floats(0.0, 1.0),
    failures=st.lists(st.sampled_from([None, 0, 1, 5, 90]), min_size=9, max_size=9),
)
def test_nothing_is_begun_after_the_deadline(
    timeout: float, retries: int, attempt: float, draw: float, failures: list[int | None]
) -> None:
    clock = Clock(attempt=attempt)

    def outcome(at: int) -> Outcome:
        return REFUSED if failures[at] is None else unavailable(failures[at])

    config = client_config(clock, timeout=timeout, retries=retries, draw=draw)
    error, sends, waits = play(CALL, config, outcome)

    assert isinstance(error, NoAnswerError | UnavailableError)
    assert 1 <= len(sends) <= retries + 1
    assert len(waits) == len(sends) - 1
    assert all(at < 1000.0 + timeout for at in clock.begun)
    for at, (send, when) in enumerate(zip(sends, clock.begun, strict=True)):
        left = 1000.0 + timeout - when
        limits = send.extensions["timeout"]
        assert limits["read"] == max(left, 0.001)
        assert limits["connect"] == min(limits["read"], 5.0)
        assert 0.001 <= float(send.headers["X-Request-Timeout"]) <= max(left, 0.001)
        if at < len(waits):
            growing = min(0.25 * 2**at, 8.0)
            wanted = failures[at]
            if wanted is None:
                assert growing / 2 <= waits[at] <= growing
            else:
                assert min(wanted, 60) <= waits[at] <= min(wanted, 60) + growing


@pytest.mark.parametrize(
    "outcome", [REFUSED, httpx.ReadTimeout("slow"), unavailable(1), unavailable(status=504)]
)
def test_readiness_is_asked_once(outcome: Outcome) -> None:
    ready, sends, waits = play(is_ready(), client_config(), lambda _: outcome)
    assert ready is False
    assert (len(sends), waits) == (1, [])
    assert "Content-Type" not in sends[0].headers
