"""Decides the attempts and pauses of a call within its deadline, without any I/O.

`exchange` is a generator. It yields the next step, a `Send` or a `Wait`, receives its outcome, and
returns the result. Each client carries out the steps in its own way.
"""

import itertools
import math
from collections.abc import Callable, Generator
from dataclasses import dataclass, field
from typing import TypeVar

import httpx

from headlight_client.answers import Answer
from headlight_client.calls import Call
from headlight_client.config import ClientConfig
from headlight_client.errors import (
    HeadlightError,
    NoAnswerError,
    ProblemError,
    TimedOutError,
    UnavailableError,
    UnexpectedAnswerError,
)
from headlight_client.problems import read_problem
from headlight_client.reading import MALFORMED

T = TypeVar("T")

# A host that accepts no connection gets less time than one that computes.
CONNECT_SECONDS = 5.0
# A call without a connection after this share of the time has too little left for an answer. It
# ends then, before the whole time is up, so that the error can name the reason.
POOL_SHARE = 0.95
FIRST_PAUSE, LONGEST_PAUSE = 0.25, 8.0
LONGEST_RETRY_AFTER = 60.0
LEAST_SECONDS = 0.001  # the least that httpx and `X-Request-Timeout` can hold

_MOST_DOUBLINGS = 32  # the pause has its limit long before; far more doublings overflow


@dataclass(frozen=True, slots=True)
class Send:
    """The step of sending a request and reading its whole answer."""

    method: str
    url: str
    headers: httpx.Headers = field(repr=False)
    body: bytes | None = field(repr=False)  # it holds the sentences
    seconds: float  # after them the answer is useless
    timeout: httpx.Timeout  # of each single wait


@dataclass(frozen=True, slots=True)
class Wait:
    """The step of waiting for some seconds."""

    seconds: float


Step = Send | Wait
Outcome = Answer | httpx.RequestError | None


def exchange(call: Call[T], config: ClientConfig) -> Generator[Step, Outcome, T]:
    """Tries until there is a result, a permanent error, or no time left.

    It tries again after a refused or broken connection and after status 429, 502 or 503. It does
    not after 504: that request has had its time. Returns what the call reads from the answer.

    Raises:
        HeadlightError: the error of the last attempt.
    """
    deadline = config.now() + config.timeout
    # All attempts share one id, so that a search of the log finds them together.
    request_id = config.new_id()
    retries = config.retries if call.when_away is None else 0
    for attempt in itertools.count():
        outcome = yield _send(call, config, deadline - config.now(), request_id)
        if isinstance(outcome, Answer) and outcome.status == httpx.codes.OK:
            return _understood(call.read, outcome, config, request_id)
        error = _error(outcome, config, request_id)
        if attempt < retries and isinstance(error, UnavailableError | NoAnswerError):
            pause = _pause(error, attempt, config.draw())
            if config.now() + pause < deadline:
                yield Wait(pause)
                if config.now() < deadline:
                    continue
        if call.when_away is not None and isinstance(
            error, UnavailableError | NoAnswerError | TimedOutError
        ):
            return call.when_away
        raise error from (outcome if isinstance(outcome, Exception) else None)
    raise AssertionError  # the loop never ends by itself


def _send(call: Call[T], config: ClientConfig, left: float, request_id: str) -> Send:
    left = max(left, LEAST_SECONDS)
    # httpx.Headers hides the key in `repr`; error trackers store the `repr` of local variables.
    headers = httpx.Headers(
        {
            **config.headers,
            "Accept": call.accept,
            # The service drops work that nobody waits for.
            "X-Request-Timeout": f"{math.floor(left * 1000) / 1000:.3f}",
            "X-Request-ID": request_id,
        }
    )
    if call.body is not None:
        headers["Content-Type"] = "application/json"
    timeout = httpx.Timeout(left, connect=min(left, CONNECT_SECONDS), pool=left * POOL_SHARE)
    return Send(call.method, config.address + call.path, headers, call.body, left, timeout)


def _understood(
    read: Callable[[Answer], T], answer: Answer, config: ClientConfig, request_id: str
) -> T:
    try:
        return read(answer)
    except MALFORMED as error:
        raise UnexpectedAnswerError(
            f"an answer of {config.address} with status {answer.status} cannot be read: "
            "a Headlight service must be there, of a version that this client knows",
            request_id=answer.headers.get("x-request-id", request_id),
        ) from error


def _error(outcome: Outcome, config: ClientConfig, request_id: str) -> HeadlightError:
    if isinstance(outcome, Answer):
        if outcome.status >= httpx.codes.BAD_REQUEST:
            return read_problem(outcome, request_id=request_id)
        return UnexpectedAnswerError(
            f"{config.address} answered with status {outcome.status}, which a Headlight service "
            "does not: check base_url",
            request_id=outcome.headers.get("x-request-id", request_id),
        )
    kind, message = _without_answer(outcome, config, request_id)
    return kind(message, request_id=request_id)


def _without_answer(
    outcome: httpx.RequestError | None, config: ClientConfig, request_id: str
) -> tuple[type[HeadlightError], str]:
    """Explains why no answer came; names the request if the service may have received it."""
    address, reason = config.address, str(outcome) or type(outcome).__name__
    if isinstance(outcome, httpx.PoolTimeout):
        return TimedOutError, (
            f"too many calls at once: none of this client's connections to {address} was free "
            f"within {config.timeout:g} s: ask with fewer calls at a time, or raise timeout or "
            "max_connections of an http_client of your own"
        )
    if isinstance(outcome, httpx.ConnectTimeout):
        return NoAnswerError, f"{address} takes no connection: check base_url and the network"
    if isinstance(outcome, httpx.ConnectError):
        return NoAnswerError, f"no answer from {address}: {reason}; does a service run there?"
    if isinstance(outcome, httpx.TimeoutException):
        return TimedOutError, (
            f"{address} gave no answer within {config.timeout:g} s: send less at once, or raise "
            f"timeout (request {request_id})"
        )
    if isinstance(outcome, httpx.DecodingError | httpx.TooManyRedirects):
        return UnexpectedAnswerError, f"an answer of {address} cannot be read: {reason}"
    return NoAnswerError, (
        f"no answer from {address}: {reason}; does a service run there? (request {request_id})"
    )


def _pause(error: HeadlightError, attempt: int, drawn: float) -> float:
    """Returns the seconds until the next attempt, spread so that clients do not return together."""
    growing: float = min(FIRST_PAUSE * 2.0 ** min(attempt, _MOST_DOUBLINGS), LONGEST_PAUSE)
    if isinstance(error, ProblemError) and error.retry_after is not None:
        return min(error.retry_after, LONGEST_RETRY_AFTER) + growing * drawn
    return growing * (1 + drawn) / 2
