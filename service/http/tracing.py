"""Makes spans of requests: one for each request, with a child for each stage of its work.

Names follow OpenTelemetry's conventions for HTTP, or begin with `headlight.`. No attribute holds
text of a user. OpenTelemetry's own layer for ASGI costs 1.7 times as much, and knows neither the
problem nor the passes of a request.
"""

import time
from collections.abc import Callable, Sequence

from opentelemetry.context import Context
from opentelemetry.trace import (
    Span,
    SpanKind,
    StatusCode,
    Tracer,
    format_span_id,
    format_trace_id,
    set_span_in_context,
)
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator
from starlette.requests import ClientDisconnect
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from service.http.middleware import CLIENT_LEFT, is_health
from service.tracing.record import CURRENT, IDS_KEY, PROBLEM_KEY, TRACE_ID_KEY, Stage, Trace

PARENT = "traceparent"
STATE = "tracestate"

_PARENT_HEADER, _STATE_HEADER = PARENT.encode("ascii"), STATE.encode("ascii")
_METHODS = frozenset(
    ("CONNECT", "DELETE", "GET", "HEAD", "OPTIONS", "PATCH", "POST", "PUT", "TRACE")
)
_OTHER = "_OTHER"
_ERROR = 500
_NO_PARENT = Context()

_Headers = Sequence[tuple[bytes, bytes]]


class TracingMiddleware:
    """Traces every request but those for health and metrics."""

    def __init__(self, app: ASGIApp, *, tracer: Tracer) -> None:
        self._app = app
        self._tracer = tracer
        self._propagator = TraceContextTextMapPropagator()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Traces one request; lets everything but HTTP through."""
        # Machines ask these every few seconds.
        if scope["type"] != "http" or is_health(scope["path"]) or scope["path"] == "/metrics":
            await self._app(scope, receive, send)
            return
        began = time.monotonic_ns()
        to_time = time.time_ns() - began
        method = scope["method"] if scope["method"] in _METHODS else _OTHER
        span = self._tracer.start_span(
            _name(method),
            context=self._parent(scope["headers"]),
            kind=SpanKind.SERVER,
            start_time=began + to_time,
        )
        ids = _note(scope, span)
        # What is sampled out is known by its ids, but nothing is noted of it.
        trace = Trace() if span.is_recording() else None
        CURRENT.set(trace)
        status = CLIENT_LEFT  # until an answer begins

        async def send_with_id(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                header = (_PARENT_HEADER, ids)
                message = {**message, "headers": [*message["headers"], header]}
            await send(message)

        try:
            await self._app(scope, receive, send_with_id)
        except ClientDisconnect:
            status = CLIENT_LEFT  # even if it took the beginning
            raise
        finally:
            if trace is not None:
                ended = time.monotonic_ns()
                _describe(span, scope, method, status, trace)
                self._add_stages(span, trace, ended, lambda clock: clock + to_time)
                span.end(ended + to_time)

    def _parent(self, headers: _Headers) -> Context:
        """What the request is a part of, if its headers say so, and only once."""
        parents = [value for name, value in headers if name == _PARENT_HEADER]
        if len(parents) != 1:
            return _NO_PARENT
        states = [value for name, value in headers if name == _STATE_HEADER]
        carrier = {PARENT: parents[0].decode("latin-1")}
        if states:
            carrier[STATE] = b",".join(states).decode("latin-1")
        return self._propagator.extract(carrier, _NO_PARENT)

    def _add_stages(
        self, span: Span, trace: Trace, ended: int, to_time: Callable[[int], int]
    ) -> None:
        context = set_span_in_context(span, _NO_PARENT)
        for stage in tuple(trace.stages):  # a worker may still add to them
            child = self._tracer.start_span(
                stage.name,
                context=context,
                attributes=_attributes(stage),
                start_time=to_time(min(stage.began, ended)),
            )
            if stage.error is not None:
                child.set_status(StatusCode.ERROR)
            child.end(to_time(min(stage.ended or ended, ended)))


def _name(method: str, route: str | None = None) -> str:
    shown = "HTTP" if method == _OTHER else method
    return shown if route is None else f"{shown} {route}"


def _note(scope: Scope, span: Span) -> bytes:
    """Notes the ids of a span for logs and problems, and returns them for a header."""
    context = span.get_span_context()
    trace_id, span_id = format_trace_id(context.trace_id), format_span_id(context.span_id)
    scope[IDS_KEY] = {"trace_id": trace_id, "span_id": span_id}
    if span.is_recording():
        scope[TRACE_ID_KEY] = trace_id
    return f"00-{trace_id}-{span_id}-{context.trace_flags:02x}".encode("ascii")


def _describe(span: Span, scope: Scope, method: str, status: int, trace: Trace) -> None:
    """Sets the attributes of a request that are known at its end."""
    route = getattr(scope.get("route"), "path", None)
    problem = scope.get(PROBLEM_KEY)
    said: dict[str, str | int] = {
        "http.request.method": method,
        "http.response.status_code": status,
        "network.protocol.version": scope["http_version"],
        "url.scheme": scope["scheme"],
    }
    if route is not None:
        said["http.route"] = route
        if route == scope["path"]:
            said["url.path"] = route
    if scope.get("server"):
        said["server.address"], port = scope["server"]
        said |= {} if port is None else {"server.port": port}
    if problem is not None:
        said["headlight.problem"] = problem
    if status >= _ERROR:
        said["error.type"] = problem or str(status)
        span.set_status(StatusCode.ERROR)
    if trace.passes:
        said["headlight.passes"] = trace.passes
    span.set_attributes(said)
    span.update_name(_name(method, route))


def _attributes(stage: Stage) -> dict[str, str | int | bool]:
    said: dict[str, str | int | bool] = {**stage.attributes}
    if stage.error is not None:
        said["error.type"] = stage.error
    if stage.ended is None:
        said["headlight.unfinished"] = True
    return said
