"""What surrounds every request: its id, its deadline, its headers, its log line, its last resort.

A plain ASGI middleware, outside of routing and inside of nothing that could answer in its stead:
whatever leaves the application passes here and carries `X-Request-ID`.
"""

import asyncio
import logging
import re
import time
import uuid
from collections.abc import Iterable

from starlette.requests import ClientDisconnect
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from service.errors import (
    INTERNAL_DETAIL,
    DeadlineError,
    DrainingError,
    InternalError,
    InvalidRequestError,
    MethodNotAllowedError,
    ServiceError,
)
from service.http.deadline import allowed_seconds, set_deadline
from service.http.lifecycle import Lifecycle
from service.http.origins import Origins
from service.metrics import UNMATCHED, Metrics

logger = logging.getLogger("headlight.request")

REQUEST_ID = "X-Request-ID"
_ID_HEADER = REQUEST_ID.lower().encode("ascii")
_ID = re.compile(rb"[A-Za-z0-9._-]{1,128}")
CLIENT_LEFT = 499
_NO_METHOD = MethodNotAllowedError.status
_HEADERS = (
    (b"x-content-type-options", b"nosniff"),
    (b"referrer-policy", b"no-referrer"),
)
_UNLESS_SET = (
    (b"cache-control", b"no-store"),
    (b"content-security-policy", b"default-src 'self'"),
)
HEALTH_PREFIX = "/health/"


class RequestMiddleware:
    """Wraps the application; see the module.

    Args:
        app: what answers.
        lifecycle: whether the process is about to end.
        metrics: where requests are counted.
        request_timeout: seconds until an answer must have begun, unless the client wants less.
        origins: pages elsewhere that may read its answers.
    """

    def __init__(
        self,
        app: ASGIApp,
        *,
        lifecycle: Lifecycle,
        metrics: Metrics,
        request_timeout: float,
        origins: Origins,
    ) -> None:
        self._app = app
        self._lifecycle = lifecycle
        self._metrics = metrics
        self._request_timeout = request_timeout
        self._origins = origins

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answers one request; lets everything but HTTP through."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        answer = _Answer(send, _request_id(scope["headers"]), self._lifecycle)
        started = time.perf_counter()
        self._metrics.in_progress.inc()
        try:
            await self._answer(scope, receive, answer)
        except ClientDisconnect:
            answer.status = CLIENT_LEFT  # even if it took the beginning
        finally:
            self._metrics.in_progress.dec()
            self._record(scope, answer, time.perf_counter() - started)

    async def _answer(self, scope: Scope, receive: Receive, answer: "_Answer") -> None:
        is_health = scope["path"].startswith(HEALTH_PREFIX)
        if self._lifecycle.ended and not is_health:
            error: ServiceError = DrainingError(
                "The service is shutting down: send the request to another replica.",
                retry_after=1,
            )
            await self._problem(error, scope, receive, answer)
            return
        try:
            headers = [] if is_health else scope["headers"]
            seconds = allowed_seconds(headers, self._request_timeout)
        except InvalidRequestError as wrong:
            await self._problem(wrong, scope, receive, answer)
            return
        try:
            async with asyncio.timeout(seconds) as deadline:
                set_deadline(scope, asyncio.get_running_loop().time() + seconds)
                answer.deadline = deadline
                await self._app(scope, receive, answer.send)
        except TimeoutError as fault:
            if deadline.expired():
                error = DeadlineError(
                    f"No answer was ready within {seconds:g} seconds, and the work "
                    "was dropped: send fewer or shorter sentences at once, or try again later."
                )
            else:
                error = self._internal(fault, answer)
            await self._problem(error, scope, receive, answer)
        except ClientDisconnect:
            raise
        except Exception as fault:  # the last resort: nothing may leave without an answer
            await self._problem(self._internal(fault, answer), scope, receive, answer)

    def _internal(self, fault: Exception, answer: "_Answer") -> InternalError:
        logger.error("a request failed", exc_info=fault, extra={"request_id": answer.request_id})
        return InternalError(INTERNAL_DETAIL)

    async def _problem(
        self, error: ServiceError, scope: Scope, receive: Receive, answer: "_Answer"
    ) -> None:
        answer.deadline = None  # over, whichever way it ended
        if answer.status is None:
            self._metrics.problems.labels(error.type).inc()
            response = error.response()
            response.raw_headers.extend(self._origins.headers(scope["headers"]))
            await response(scope, receive, answer.send)

    def _record(self, scope: Scope, answer: "_Answer", seconds: float) -> None:
        # Neither a path nor a method that nobody serves is shown: both are the client's own text.
        route = getattr(scope.get("route"), "path", UNMATCHED)
        status = answer.status or CLIENT_LEFT
        method = scope["method"] if route != UNMATCHED and status != _NO_METHOD else UNMATCHED
        self._metrics.requests.labels(route, method, str(status)).inc()
        self._metrics.seconds.labels(route).observe(seconds)
        logger.info(
            "request",
            extra={
                "request_id": answer.request_id,
                "method": method,
                "route": route,
                "status": status,
                "milliseconds": round(seconds * 1000, 2),
            },
        )


class _Answer:
    """The way out of one response: adds headers, remembers the status, stops the deadline."""

    def __init__(self, send: Send, request_id: str, lifecycle: Lifecycle) -> None:
        self.request_id = request_id
        self.status: int | None = None
        self.deadline: asyncio.Timeout | None = None
        self._send = send
        self._lifecycle = lifecycle

    async def send(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            self.status = message["status"]
            message = {**message, "headers": [*message["headers"], *self._added(message)]}
            if self.deadline is not None and not self.deadline.expired():
                self.deadline.reschedule(None)  # what is being sent is no longer waited for
        await self._send(message)

    def _added(self, message: Message) -> Iterable[tuple[bytes, bytes]]:
        names = {name.lower() for name, _ in message["headers"]}
        yield _ID_HEADER, self.request_id.encode()
        yield from _HEADERS
        for header in _UNLESS_SET:
            if header[0] not in names:
                yield header
        if self._lifecycle.draining and b"connection" not in names:
            yield b"connection", b"close"


def response_headers(headers: Iterable[tuple[bytes, bytes]]) -> Iterable[tuple[bytes, bytes]]:
    """What every response has, for one that does not come through here.

    Args:
        headers: of the request, names in lower case.
    """
    return ((_ID_HEADER, _request_id(headers).encode()), *_HEADERS, *_UNLESS_SET)


def _request_id(headers: Iterable[tuple[bytes, bytes]]) -> str:
    """The client's own id if it is one that can be logged, else a new one."""
    given = [value for name, value in headers if name == _ID_HEADER]
    if len(given) == 1 and _ID.fullmatch(given[0]):
        return given[0].decode()
    return uuid.uuid4().hex
