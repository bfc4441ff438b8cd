"""Sends calls, again where that may help, within their deadline.

Everything is written once, as coroutines over a transport. That of `Client` never suspends, so
`run` carries a coroutine out at once, without an event loop.
"""

import asyncio
import itertools
import math
import time
import uuid
from collections import UserDict
from collections.abc import Callable, Coroutine, Mapping, Sequence
from typing import Any, TypeVar, cast

import httpx

from headlight_client import errors
from headlight_client.answers import Answer
from headlight_client.calls import Call
from headlight_client.config import ClientConfig
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


class Blocking:
    """Waits for each answer; no timer interrupts a wait.

    Each wait has its own limit, and the time is checked after the headers and after each piece of
    the body.
    """

    def __init__(
        self, http: httpx.Client | None = None, now: Callable[[], float] = time.monotonic
    ) -> None:
        self.http = httpx.Client() if http is None else http
        self._owns_http = http is None
        self._now = now

    async def send(self, request: httpx.Request, seconds: float) -> Answer:
        """Sends a request; returns its whole answer, or raises an error of httpx after the time."""
        until = self._now() + seconds
        limits = request.extensions["timeout"]
        request.extensions["timeout"] = _Waits(limits, lambda: until - self._now())
        content = bytearray()
        response = self.http.send(request, stream=True)
        try:
            # The empty first piece checks the time after the headers, which may come late.
            for piece in itertools.chain([b""], response.iter_bytes()):
                content += piece
                if self._now() > until:
                    raise httpx.ReadTimeout("the answer came too slowly")
        finally:
            response.close()
        return Answer(response.status_code, response.headers, bytes(content))

    async def sleep(self, seconds: float) -> None:
        """Waits."""
        time.sleep(seconds)  # noqa: ASYNC251 - there is no event loop

    async def close(self) -> None:
        """Closes the connections, unless the caller made them."""
        if self._owns_http:
            self.http.close()


class Awaiting:
    """Awaits answers as `Blocking` waits for them; a timer ends each request."""

    def __init__(self, http: httpx.AsyncClient | None = None) -> None:
        self.http = httpx.AsyncClient() if http is None else http
        self._owns_http = http is None

    async def send(self, request: httpx.Request, seconds: float) -> Answer:
        """See `Blocking`."""
        try:
            async with asyncio.timeout(seconds):
                response = await self.http.send(request)
        except TimeoutError as error:
            raise httpx.ReadTimeout("there was no answer in time") from error
        return Answer(response.status_code, response.headers, response.content)

    async def sleep(self, seconds: float) -> None:
        """See `Blocking`."""
        await asyncio.sleep(seconds)

    async def close(self) -> None:
        """See `Blocking`."""
        if self._owns_http:
            await self.http.aclose()


Transport = Blocking | Awaiting


async def together(work: Sequence[Coroutine[Any, Any, None]]) -> None:
    """Carries all work out at once, by asyncio; the first error ends the rest."""
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
        return cast("T", end.value)
    raise AssertionError("a blocking transport never suspends")


class _Waits(UserDict[str, float | None]):
    """The limits of each wait of a request, in seconds, computed when they are looked up.

    httpcore looks up a limit when a part of the request begins: the connection, sending, the
    headers of the answer, its body. With fixed limits each part would get the whole time again.
    """

    def __init__(self, limits: Mapping[str, float | None], left: Callable[[], float]) -> None:
        super().__init__(limits)
        self._left = left

    def __getitem__(self, name: str) -> float:
        return min(self.data[name] or math.inf, max(self._left(), LEAST_SECONDS))


async def exchange(call: Call[T], config: ClientConfig, transport: Transport) -> T:
    """Tries until there is a result, a permanent error, or no time left; raises the last error.

    It tries again after a refused or broken connection and after status 429, 502 or 503. It does
    not after 504: that request has had its time. Returns what the call reads from the answer.
    """
    deadline = config.now() + config.timeout
    # All attempts share one id, so that a search of the log finds them together.
    request_id = uuid.uuid4().hex
    retries = config.retries if call.when_away is None else 0
    for attempt in itertools.count():
        left = max(deadline - config.now(), LEAST_SECONDS)
        request = _request(call, config, transport, left, request_id)
        try:
            return _read(call, await transport.send(request, left), config, request_id)
        except httpx.RequestError as cause:
            error = _without_answer(cause, config, request_id)
            error.__cause__ = cause
        except (errors.UnavailableError, errors.TimedOutError) as rejection:
            error = rejection
        may_help = isinstance(error, errors.UnavailableError | errors.NoAnswerError)
        pause = _pause(error, attempt, config.draw())
        if attempt < retries and may_help and config.now() + pause < deadline:
            await transport.sleep(pause)
            if config.now() < deadline:
                continue
        if call.when_away is not None and (may_help or isinstance(error, errors.TimedOutError)):
            return call.when_away
        raise error
    raise AssertionError  # the loop never ends by itself


def _request(
    call: Call[Any], config: ClientConfig, transport: Transport, left: float, request_id: str
) -> httpx.Request:
    # httpx.Headers hides the key in `repr`; error trackers store the `repr` of local variables.
    headers = config.headers.copy()
    headers.update({"Accept": call.accept, "X-Request-ID": request_id})
    # The service drops work that nobody waits for.
    headers["X-Request-Timeout"] = f"{math.floor(left * 1000) / 1000:.3f}"
    if call.body is not None:
        headers["Content-Type"] = "application/json"
    timeout = httpx.Timeout(left, connect=min(left, CONNECT_SECONDS), pool=left * POOL_SHARE)
    return transport.http.build_request(
        call.method, config.address + call.path, headers=headers, content=call.body, timeout=timeout
    )


def _read(call: Call[T], answer: Answer, config: ClientConfig, request_id: str) -> T:
    """Returns what an answer says, or raises its error."""
    if answer.status >= httpx.codes.BAD_REQUEST:
        raise errors.read_problem(answer, request_id=request_id)
    request_id = answer.headers.get("x-request-id", request_id)
    if answer.status != httpx.codes.OK:
        raise errors.UnexpectedAnswerError(
            f"{config.address} answered with status {answer.status}, which a Headlight service "
            "does not: check base_url",
            request_id=request_id,
        )
    try:
        return call.read(answer)
    except MALFORMED as error:
        raise errors.UnexpectedAnswerError(
            f"an answer of {config.address} with status {answer.status} cannot be read: "
            "a Headlight service must be there, of a version that this client knows",
            request_id=request_id,
        ) from error


def _without_answer(
    cause: httpx.RequestError, config: ClientConfig, request_id: str
) -> errors.HeadlightError:
    """Explains why no answer came; names the request if the service may have received it."""
    address, reason = config.address, str(cause) or type(cause).__name__
    kind: type[errors.HeadlightError] = errors.NoAnswerError
    if isinstance(cause, httpx.PoolTimeout):
        kind = errors.TimedOutError
        message = (
            f"too many calls at once: none of this client's connections to {address} was free "
            f"within {config.timeout:g} s: ask with fewer calls at a time, or raise timeout or "
            "max_connections of an http_client of your own"
        )
    elif isinstance(cause, httpx.ConnectTimeout):
        message = f"{address} takes no connection: check base_url and the network"
    elif isinstance(cause, httpx.TimeoutException):
        kind = errors.TimedOutError
        message = (
            f"{address} gave no answer within {config.timeout:g} s: send less at once, or raise "
            f"timeout (request {request_id})"
        )
    elif isinstance(cause, httpx.DecodingError | httpx.TooManyRedirects):
        kind = errors.UnexpectedAnswerError
        message = f"an answer of {address} cannot be read: {reason}"
    else:
        message = f"no answer from {address}: {reason}; does a service run there?"
        if not isinstance(cause, httpx.ConnectError):
            message += f" (request {request_id})"
    return kind(message, request_id=request_id)


def _pause(error: errors.HeadlightError, attempt: int, drawn: float) -> float:
    """Returns the seconds until the next attempt, spread so that clients do not return together."""
    growing: float = min(FIRST_PAUSE * 2.0 ** min(attempt, _MOST_DOUBLINGS), LONGEST_PAUSE)
    if isinstance(error, errors.ProblemError) and error.retry_after is not None:
        return min(error.retry_after, LONGEST_RETRY_AFTER) + growing * drawn
    return growing * (1 + drawn) / 2
