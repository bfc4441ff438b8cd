"""The layer that traces, with headers that no client would send, and with errors behind it."""

from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import StatusCode
from starlette.requests import ClientDisconnect
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from service.http.tracing import TracingMiddleware
from tests.service.connections import at_once

Headers = list[tuple[bytes, bytes]]
_BYTES = st.binary(max_size=80) | st.from_regex(
    rb"\A[0-9a-f]{2}-[0-9a-f]{32}-[0-9a-f]{16}-[0-9a-f]{2}", fullmatch=True
)


def scope(headers: Headers | None = None, path: str = "/predict") -> Scope:
    return {
        "type": "http",
        "http_version": "1.1",
        "method": "POST",
        "scheme": "http",
        "path": path,
        "server": ("127.0.0.1", 8000),
        "headers": headers or [],
    }


async def answer(_scope: Scope, _receive: Receive, send: Send) -> None:
    await send({"type": "http.response.start", "status": 200, "headers": []})
    await send({"type": "http.response.body", "body": b""})


async def receive() -> Message:
    return {"type": "http.disconnect"}


@pytest.fixture(scope="module")
def provider() -> TracerProvider:
    return TracerProvider(shutdown_on_exit=False)


@pytest.fixture
def exporter(provider: TracerProvider) -> Iterator[InMemorySpanExporter]:
    exporter = InMemorySpanExporter()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    yield exporter
    exporter.shutdown()


def ask(provider: TracerProvider, app: ASGIApp, scope: Scope) -> list[Message]:
    sent: list[Message] = []

    async def send(message: Message) -> None:
        sent.append(message)

    layer = TracingMiddleware(app, tracer=provider.get_tracer("test"))
    at_once(layer(scope, receive, send))
    return sent


@given(
    headers=st.lists(
        st.tuples(st.sampled_from([b"traceparent", b"tracestate", b"host"]), _BYTES), max_size=4
    )
)
def test_no_header_spoils_a_request(provider: TracerProvider, headers: Headers) -> None:
    sent = ask(provider, answer, scope(headers))
    [(name, value)] = sent[0]["headers"]
    assert name == b"traceparent"
    assert len(value) == 55


def test_a_bug_behind_it_goes_on_and_ends_the_span(
    provider: TracerProvider, exporter: InMemorySpanExporter
) -> None:
    async def fail(scope: Scope, receive: Receive, send: Send) -> None:
        await answer(scope, receive, send)
        raise KeyError("secret")

    with pytest.raises(KeyError):
        ask(provider, fail, scope())
    [span] = exporter.get_finished_spans()
    assert span.status.status_code is StatusCode.UNSET
    assert span.events == ()


def test_a_client_that_leaves_during_its_answer(
    provider: TracerProvider, exporter: InMemorySpanExporter
) -> None:
    async def leave(scope: Scope, receive: Receive, send: Send) -> None:
        await answer(scope, receive, send)
        raise ClientDisconnect

    with pytest.raises(ClientDisconnect):
        ask(provider, leave, scope())
    [span] = exporter.get_finished_spans()
    assert (span.attributes or {})["http.response.status_code"] == 499


def test_a_connection_of_a_socket_file(
    provider: TracerProvider, exporter: InMemorySpanExporter
) -> None:
    for server in (None, ("/run/headlight.sock", None)):
        ask(provider, answer, {**scope(), "server": server})
    without, with_path = (dict(each.attributes or {}) for each in exporter.get_finished_spans())
    assert "server.address" not in without
    assert with_path["server.address"] == "/run/headlight.sock"
    assert "server.port" not in with_path
