"""Gives every request an id, headers and a deadline, counts it, and answers its errors.

`RequestMiddleware` is outermost, so that every answer has an id and is counted. CORS comes next, so
that other origins can read errors, then `ProblemMiddleware`.
"""

import asyncio
import logging
import re
import secrets
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from starlette.requests import ClientDisconnect
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from service.errors import (
    INTERNAL_DETAIL,
    DeadlineError,
    DrainingError,
    InternalError,
    MethodNotAllowedError,
    ServiceError,
    invalid,
    without_frames,
)
from service.logs import log_request
from service.metrics import UNMATCHED, Metrics
from service.tracing.record import IDS_KEY, PROBLEM_KEY, TRACE_ID_KEY

logger = logging.getLogger("headlight.request")

REQUEST_ID = "X-Request-ID"
TIMEOUT = "X-Request-Timeout"
CLIENT_LEFT = 499

_ID_HEADER = REQUEST_ID.lower().encode("ascii")
_ID_BYTES = 16
_ID = re.compile(rb"[A-Za-z0-9._-]{1,128}")
_TIMEOUT_HEADER = TIMEOUT.lower().encode("ascii")
_SECONDS = re.compile(rb"[0-9]{1,9}(?:\.[0-9]{1,9})?")
_SECONDS_ERROR = "must be a number of seconds above 0, such as 2.5, given once"
_HEADERS = ((b"x-content-type-options", b"nosniff"), (b"referrer-policy", b"no-referrer"))
_UNLESS_SET = (
    (b"cache-control", b"no-store"),
    (b"content-security-policy", b"default-src 'self'; frame-ancestors 'none'"),
)
# Of every response beside its id; for one that does not pass through the middleware.
RESPONSE_HEADERS = (*_HEADERS, *_UNLESS_SET)
# What the layers note in the scope of a request.
_ID_KEY = "headlight.request_id"
_DEADLINE_KEY = "headlight.deadline"
_SECONDS_KEY = "headlight.seconds"
_LIMIT_KEY = "headlight.limit"
_LOC_KEY = "headlight.loc"
#: in the scope of a request: the name of its API key
CLIENT_NAME = "headlight.client_name"
#: in the scope of a request of a limited client: what makes the items of the headers below
LIMITS = "headlight.limits"
LIMIT_HEADERS = ("RateLimit-Policy", "RateLimit")

# They end the process or the task.
_ENDS = (KeyboardInterrupt, SystemExit, GeneratorExit)

# Paths of health, by our names and those of other systems.
_HEALTH_PREFIX = "/health/"
_HEALTH_ELSEWHERE = frozenset({"/health", "/ping", "/v2/health/live", "/v2/health/ready"})

Headers = Iterable[tuple[bytes, bytes]]
Layer = Callable[[ASGIApp], ASGIApp]


@dataclass(slots=True)
class Lifecycle:
    """How far the end of the process has come: flags that only turn from False to True.

    Args:
        draining: readiness is off, and each answer closes its connection.
        ended: the drain time is over; new requests are refused.
        stuck: a forward pass does not end, so the process must be killed.
    """

    draining: bool = False
    ended: bool = False
    stuck: bool = False


class RequestMiddleware:
    """Gives every request an id, every answer its headers, and both a line in log and metrics."""

    def __init__(self, app: ASGIApp, *, lifecycle: Lifecycle, metrics: Metrics) -> None:
        self._app = app
        self._lifecycle = lifecycle
        self._metrics = metrics

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Passes one request on; lets everything but HTTP through."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        scope[_ID_KEY] = request_id(scope["headers"])
        status = CLIENT_LEFT  # until an answer begins

        async def send_with_headers(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                added = self._added(scope, message["headers"])
                message = {**message, "headers": [*message["headers"], *added]}
            await send(message)

        started = time.perf_counter()
        self._metrics.in_progress.inc()
        try:
            await self._app(scope, receive, send_with_headers)
        except ClientDisconnect:
            status = CLIENT_LEFT  # even if it took the beginning
        finally:
            self._metrics.in_progress.dec()
            self._record(scope, status, time.perf_counter() - started)

    def _added(self, scope: Scope, given: Headers) -> Headers:
        names = {name.lower() for name, _ in given}
        yield _ID_HEADER, scope[_ID_KEY].encode()
        yield from _HEADERS
        limits = [items() for items in scope.get(LIMITS, ())]
        for name, items in zip(LIMIT_HEADERS, zip(*limits, strict=True), strict=False):
            yield name.lower().encode(), ", ".join(items).encode()
        for header in _UNLESS_SET:
            if header[0] not in names:
                yield header
        if self._lifecycle.draining and b"connection" not in names:
            yield b"connection", b"close"

    def _record(self, scope: Scope, status: int, seconds: float) -> None:
        # An unknown path or method is text of the client's own, so it is not shown.
        route = getattr(scope.get("route"), "path", UNMATCHED)
        known = route != UNMATCHED and status != MethodNotAllowedError.status
        method = scope["method"] if known else UNMATCHED
        self._metrics.count_request(route, method, status, scope.get(CLIENT_NAME))
        self._metrics.observe_request(route, seconds, scope.get(TRACE_ID_KEY))
        log_request(
            request_id=scope[_ID_KEY],
            method=method,
            route=route,
            status=status,
            milliseconds=round(seconds * 1000, 2),
            **_noted(scope),
            **scope.get(IDS_KEY, {}),
        )


class ProblemMiddleware:
    """Answers every error of the layers inside it, and every request that takes too long.

    Args:
        app: the next ASGI app; it raises `ServiceError` for what it refuses.
        lifecycle: when the drain time is over, only health is answered.
        request_timeout: seconds until an answer must have begun, unless the client wants less.
        with_error: whether a problem of a request repeats its detail as `error`.
    """

    def __init__(
        self,
        app: ASGIApp,
        *,
        lifecycle: Lifecycle,
        metrics: Metrics,
        request_timeout: float,
        with_error: Callable[[Scope], bool] = lambda _: False,
    ) -> None:
        self._app = app
        self._lifecycle = lifecycle
        self._metrics = metrics
        self._request_timeout = request_timeout
        self._with_error = with_error

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answers one request; lets everything but HTTP through."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        answer = _Answer(send)
        try:
            await self._answer_in_time(scope, receive, answer)
        except (ClientDisconnect, asyncio.CancelledError, *_ENDS):
            raise
        # The last resort: no request may stay without an answer. A panic in Rust is no Exception.
        except BaseException as raised:
            if answer.begun or not isinstance(raised, ServiceError):
                named = {"request_id": scope[_ID_KEY], **scope.get(IDS_KEY, {})}
                logger.exception("a request failed", extra=named)
            without_frames(raised)
            if not answer.begun:
                error = (
                    raised if isinstance(raised, ServiceError) else InternalError(INTERNAL_DETAIL)
                )
                self._metrics.count_problem(error)
                scope[PROBLEM_KEY] = error.type
                scope[_LOC_KEY] = error.errors[0].loc if error.errors else ()
                trace_id = scope.get(IDS_KEY, {}).get("trace_id")
                response = error.response(with_error=self._with_error(scope), trace_id=trace_id)
                await response(scope, receive, send)

    async def _answer_in_time(self, scope: Scope, receive: Receive, answer: "_Answer") -> None:
        is_probe = is_health(scope["path"])
        if self._lifecycle.ended and not is_probe:
            raise DrainingError(
                "The service is shutting down: send the request to another replica.", retry_after=1
            )
        seconds = _allowed_seconds([] if is_probe else scope["headers"], self._request_timeout)
        scope[_DEADLINE_KEY] = asyncio.get_running_loop().time() + seconds
        scope[_SECONDS_KEY] = seconds
        try:
            async with asyncio.timeout(seconds) as answer.deadline:
                scope[_LIMIT_KEY] = answer.deadline
                await self._app(scope, receive, answer.send)
        except TimeoutError as error:
            if not answer.deadline.expired():
                raise  # a bug
            raise DeadlineError(
                f"No answer was ready within {seconds_of(scope):g} seconds, and the work was "
                "dropped: send fewer or shorter sentences at once, or try again later."
            ) from error


class _Answer:
    """Watches for the beginning of an answer, which ends its deadline."""

    deadline: asyncio.Timeout

    def __init__(self, send: Send) -> None:
        self.begun = False
        self._send = send

    async def send(self, message: Message) -> None:
        if not self.begun:
            self.begun = True
            if not self.deadline.expired():
                self.deadline.reschedule(None)
        await self._send(message)


def is_health(path: str) -> bool:
    """Whether a path reports health, which anyone may ask at any time."""
    return path.startswith(_HEALTH_PREFIX) or path in _HEALTH_ELSEWHERE


def _noted(scope: Scope) -> dict[str, str]:
    """Returns the client's name, the type of the problem answered, and the first place in it."""
    noted = {"client": scope.get(CLIENT_NAME), "type": scope.get(PROBLEM_KEY)}
    noted["loc"] = ".".join(map(str, scope.get(_LOC_KEY, ())))
    return {name: value for name, value in noted.items() if value}


def deadline_of(scope: Scope) -> float:
    """Until when a request can be answered, by the event loop's clock."""
    deadline: float = scope[_DEADLINE_KEY]
    return deadline


def seconds_of(scope: Scope) -> float:
    """How long a request has in all, by its client or by the settings."""
    seconds: float = scope[_SECONDS_KEY]
    return seconds


def hurry(scope: Scope, seconds: float) -> None:
    """Gives a request at most `seconds` from now on."""
    deadline = asyncio.get_running_loop().time() + seconds
    if deadline < deadline_of(scope):
        scope[_DEADLINE_KEY], scope[_SECONDS_KEY] = deadline, seconds
        scope[_LIMIT_KEY].reschedule(deadline)


def id_of(scope: Scope) -> str:
    """The id of a request."""
    given: str = scope[_ID_KEY]
    return given


def request_id(headers: Headers) -> str:
    """Returns the client's own id if it can be logged, else a new one."""
    given = [value for name, value in headers if name == _ID_HEADER]
    if len(given) == 1 and _ID.fullmatch(given[0]):
        return given[0].decode()
    return secrets.token_hex(_ID_BYTES)


def _allowed_seconds(headers: Headers, limit: float) -> float:
    """Returns the service's limit, or less if the client asks for it in `X-Request-Timeout`."""
    given = [value for name, value in headers if name == _TIMEOUT_HEADER]
    if not given:
        return limit
    seconds = float(given[0]) if len(given) == 1 and _SECONDS.fullmatch(given[0]) else 0.0
    if seconds <= 0:
        raise invalid(("header", TIMEOUT), _SECONDS_ERROR)
    return min(seconds, limit)
