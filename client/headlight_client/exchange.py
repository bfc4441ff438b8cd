"""Sends calls, again where that may help, within their deadline.

Everything is written once, as coroutines over a `Transport`. That of `Client` never suspends, so
`run` carries a coroutine out at once, without an event loop.
"""

import asyncio
import itertools
import math
import time
from collections.abc import Callable, Coroutine, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol, TypeVar

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

Outcome = Answer | httpx.RequestError


@dataclass(frozen=True, slots=True)
class Send:
    """A request whose whole answer is wanted."""

    method: str
    url: str
    headers: httpx.Headers = field(repr=False)
    body: bytes | None = field(repr=False)  # it holds the sentences
    seconds: float  # after them the answer is useless
    timeout: httpx.Timeout  # of each single wait


class Transport(Protocol):
    """What differs between waiting and awaiting."""

    async def send(self, request: Send) -> Outcome:
        """Sends a request; returns its whole answer, or why there is none."""

    async def sleep(self, seconds: float) -> None:
        """Waits."""

    async def together(self, work: Sequence[Coroutine[Any, Any, None]]) -> None:
        """Carries all work out; the first error ends the rest."""


class Blocking:
    """Waits for each answer; no timer interrupts a wait.

    Each wait has its own limit, and the time is checked after the headers and after each piece of
    the body.
    """

    def __init__(self, http: httpx.Client, now: Callable[[], float] = time.monotonic) -> None:
        self._http = http
        self._now = now

    async def send(self, request: Send) -> Outcome:
        """See `Transport`."""
        until = self._now() + request.seconds
        waits = _Waits(request.timeout.as_dict(), lambda: until - self._now())
        content = bytearray()
        try:
            with self._http.stream(
                request.method,
                request.url,
                headers=request.headers,
                content=request.body,
                extensions={"timeout": waits},
            ) as response:
                # The empty first piece checks the time after the headers, which may come late.
                for piece in itertools.chain([b""], response.iter_bytes()):
                    content += piece
                    if self._now() > until:
                        return httpx.ReadTimeout("the answer came too slowly")
        except httpx.RequestError as error:
            return error
        return Answer(response.status_code, response.headers, bytes(content))

    async def sleep(self, seconds: float) -> None:
        """See `Transport`."""
        time.sleep(seconds)  # noqa: ASYNC251 - there is no event loop

    async def together(self, work: Sequence[Coroutine[Any, Any, None]]) -> None:
        """Carries out one after the other."""
        for each in work:
            await each


class Awaiting:
    """Awaits answers; a timer ends each request."""

    def __init__(self, http: httpx.AsyncClient) -> None:
        self._http = http

    async def send(self, request: Send) -> Outcome:
        """See `Transport`."""
        try:
            async with asyncio.timeout(request.seconds):
                response = await self._http.request(
                    request.method,
                    request.url,
                    headers=request.headers,
                    content=request.body,
                    timeout=request.timeout,
                )
        except TimeoutError:
            return httpx.ReadTimeout("there was no answer in time")
        except httpx.RequestError as error:
            return error
        return Answer(response.status_code, response.headers, response.content)

    async def sleep(self, seconds: float) -> None:
        """See `Transport`."""
        await asyncio.sleep(seconds)

    async def together(self, work: Sequence[Coroutine[Any, Any, None]]) -> None:
        """See `Transport`."""
        tasks = [asyncio.create_task(each) for each in work]
        try:
            await asyncio.gather(*tasks)
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)


def run(coroutine: Coroutine[Any, Any, T]) -> T:
    """Carries out a coroutine that never suspends."""
    try:
        coroutine.send(None)
    except StopIteration as end:
        result: T = end.value
        return result
    raise AssertionError("a blocking transport never suspends")


class _Waits(Mapping[str, float]):
    """The limits of each wait of a request, in seconds, computed when they are looked up.

    httpcore looks up a limit when a part of the request begins: the connection, sending, the
    headers of the answer, its body. With fixed limits each part would get the whole time again.
    Only the remaining time limits a wait without a limit.
    """

    def __init__(self, limits: Mapping[str, float | None], left: Callable[[], float]) -> None:
        self._limits = limits
        self._left = left

    def __getitem__(self, name: str) -> float:
        limit = self._limits[name]
        left = max(self._left(), LEAST_SECONDS)
        return left if limit is None else min(limit, left)

    def __iter__(self) -> Iterator[str]:
        return iter(self._limits)

    def __len__(self) -> int:
        return len(self._limits)


async def exchange(call: Call[T], config: ClientConfig, transport: Transport) -> T:
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
        outcome = await transport.send(_send(call, config, deadline - config.now(), request_id))
        if isinstance(outcome, Answer) and outcome.status == httpx.codes.OK:
            return _understood(call.read, outcome, config, request_id)
        error = _error(outcome, config, request_id)
        if attempt < retries and isinstance(error, UnavailableError | NoAnswerError):
            pause = _pause(error, attempt, config.draw())
            if config.now() + pause < deadline:
                await transport.sleep(pause)
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
    outcome: httpx.RequestError, config: ClientConfig, request_id: str
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
