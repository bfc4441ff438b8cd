"""From a call to what its caller gets: attempts, pauses and the deadline, without any I/O.

`exchange` is a generator: it yields what to do next, a `Send` or a `Wait`, is sent what came of
it, and returns the result. Each client carries the steps out in its own way.
"""

import itertools
import math
from collections.abc import Callable, Generator, Mapping
from dataclasses import dataclass
from typing import TypeVar

import httpx

from headlight_client.calls import Call
from headlight_client.errors import (
    HeadlightError,
    NoAnswerError,
    ProblemError,
    TimedOutError,
    UnavailableError,
    UnexpectedAnswerError,
)
from headlight_client.manner import Manner
from headlight_client.reading import MALFORMED, Answer, read_problem

T = TypeVar("T")

# A host that does not even take the connection is given up sooner than one that computes.
CONNECT_SECONDS = 5.0
FIRST_PAUSE, LONGEST_PAUSE = 0.25, 8.0
LONGEST_RETRY_AFTER = 60.0

_LEAST_SECONDS = 0.001


@dataclass(frozen=True, slots=True)
class Send:
    """Send a request and read its whole answer.

    Args:
        method: of the request.
        url: whole.
        headers: of the request.
        body: of the request.
        seconds: after which the answer is of no use any more.
        timeout: of each single wait.
    """

    method: str
    url: str
    headers: Mapping[str, str]
    body: bytes | None
    seconds: float
    timeout: httpx.Timeout


@dataclass(frozen=True, slots=True)
class Wait:
    """Do nothing for some seconds."""

    seconds: float


Step = Send | Wait
Outcome = Answer | httpx.RequestError | None


def exchange(call: Call[T], manner: Manner) -> Generator[Step, Outcome, T]:
    """Asks until there is a result, an error that another try would not mend, or no more time.

    Asked again is where nothing was computed: after connections that were refused or broke, and
    after the statuses 502 and 503. A request that got a 504 has already had its time.

    Args:
        call: to carry out.
        manner: of the client.

    Returns:
        What the call reads from the answer.

    Raises:
        HeadlightError: of the last attempt.
    """
    deadline = manner.now() + manner.timeout
    retries = manner.retries if call.when_away is None else 0
    for attempt in itertools.count():
        outcome = yield _send(call, manner, deadline - manner.now())
        if isinstance(outcome, Answer) and outcome.status == httpx.codes.OK:
            return _understood(call.read, outcome, manner)
        error = _error(outcome, manner)
        if attempt < retries and isinstance(error, UnavailableError | NoAnswerError):
            pause = _pause(error, attempt, manner.draw())
            if manner.now() + pause < deadline:
                yield Wait(pause)
                if manner.now() < deadline:
                    continue
        if call.when_away is not None and isinstance(
            error, UnavailableError | NoAnswerError | TimedOutError
        ):
            return call.when_away
        raise error from (outcome if isinstance(outcome, Exception) else None)
    raise AssertionError  # counting does not end


def _send(call: Call[T], manner: Manner, left: float) -> Send:
    left = max(left, _LEAST_SECONDS)
    headers = {
        **manner.headers,
        "Accept": call.accept,
        # So that the service drops work that nobody waits for any more.
        "X-Request-Timeout": f"{math.floor(left * 1000) / 1000:.3f}",
    }
    if call.body is not None:
        headers["Content-Type"] = "application/json"
    timeout = httpx.Timeout(left, connect=min(left, CONNECT_SECONDS))
    return Send(call.method, manner.address + call.path, headers, call.body, left, timeout)


def _understood(read: Callable[[Answer], T], answer: Answer, manner: Manner) -> T:
    try:
        return read(answer)
    except MALFORMED as error:
        raise UnexpectedAnswerError(
            f"an answer of {manner.address} with status {answer.status} cannot be read: "
            "a Headlight service must be there, of a version that this client knows"
        ) from error


def _error(outcome: Outcome, manner: Manner) -> HeadlightError:
    address = manner.address
    if isinstance(outcome, Answer):
        if outcome.status >= httpx.codes.BAD_REQUEST:
            return _understood(read_problem, outcome, manner)
        return UnexpectedAnswerError(
            f"{address} answered with status {outcome.status}, which a Headlight service does not: "
            "check base_url"
        )
    reason = str(outcome) or type(outcome).__name__
    if isinstance(outcome, httpx.ConnectTimeout):
        return NoAnswerError(f"{address} takes no connection: check base_url and the network")
    if isinstance(outcome, httpx.TimeoutException):
        return TimedOutError(
            f"{address} gave no answer within {manner.timeout:g} s: send less at once, or raise "
            "timeout"
        )
    if isinstance(outcome, httpx.DecodingError | httpx.TooManyRedirects):
        return UnexpectedAnswerError(f"an answer of {address} cannot be read: {reason}")
    return NoAnswerError(f"no answer from {address}: {reason}; does a service run there?")


def _pause(error: HeadlightError, attempt: int, drawn: float) -> float:
    """Seconds until the next try: never all clients that were refused together at once.

    Args:
        error: of the last attempt.
        attempt: its number, from 0.
        drawn: a random number from 0 to 1.
    """
    growing: float = min(FIRST_PAUSE * 2.0**attempt, LONGEST_PAUSE)
    if isinstance(error, ProblemError) and error.retry_after is not None:
        return min(error.retry_after, LONGEST_RETRY_AFTER) + growing * drawn
    return growing * (1 + drawn) / 2
