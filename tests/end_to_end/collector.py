"""A collector of OpenTelemetry: takes spans over HTTP as a real one does, and keeps them."""

import gzip
import threading
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import (
    ExportTraceServiceRequest,
    ExportTraceServiceResponse,
)
from opentelemetry.proto.common.v1.common_pb2 import KeyValue
from opentelemetry.proto.trace.v1.trace_pb2 import Span

from tests.end_to_end.servers import wait_until

SERVER = Span.SPAN_KIND_SERVER
INTERNAL = Span.SPAN_KIND_INTERNAL


@dataclass(slots=True)
class Received:
    """One export, with its names of headers in lower case and its content uncompressed."""

    path: str
    headers: dict[str, str]
    content: bytes
    message: ExportTraceServiceRequest


@dataclass(slots=True)
class Collector:
    """What came so far; `asked` counts the exports that began, and clearing `open` hangs them."""

    port: int = 0
    received: list[Received] = field(default_factory=list)
    asked: int = 0
    status: int = 200
    open: threading.Event = field(default_factory=threading.Event)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    @property
    def spans(self) -> list[Span]:
        return [
            span
            for each in tuple(self.received)
            for resource in each.message.resource_spans
            for scope in resource.scope_spans
            for span in scope.spans
        ]

    def requests(self, name: str | None = None) -> list[Span]:
        """The spans of requests, or those with a name."""
        return [span for span in self.spans if span.kind == SERVER and name in (None, span.name)]

    def wait_for(self, count: int, name: str | None = None) -> list[Span]:
        """The spans of requests, once there are so many."""
        wait_until(lambda: len(self.requests(name)) >= count)
        found = self.requests(name)
        assert len(found) == count, [span.name for span in found]
        return found

    def children(self, parent: Span) -> list[Span]:
        """The spans below one, in the order of their beginnings."""
        found = [span for span in self.spans if span.parent_span_id == parent.span_id]
        return sorted(found, key=lambda span: (span.start_time_unix_nano, span.end_time_unix_nano))


def attributes(pairs: Iterable[KeyValue]) -> dict[str, object]:
    """What a span or a resource says of itself."""
    return {pair.key: getattr(pair.value, str(pair.value.WhichOneof("value"))) for pair in pairs}


@contextmanager
def collecting() -> Iterator[Collector]:
    """Runs a collector until the block ends."""
    collector = Collector()
    collector.open.set()

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            collector.asked += 1
            body = self.rfile.read(int(self.headers["Content-Length"]))
            collector.open.wait()
            headers = {name.lower(): text for name, text in self.headers.items()}
            content = gzip.decompress(body) if "content-encoding" in headers else body
            if collector.status == 200:
                message = ExportTraceServiceRequest.FromString(content)
                collector.received.append(Received(self.path, headers, content, message))
            answer = ExportTraceServiceResponse().SerializeToString()
            self.send_response(collector.status)
            self.send_header("Content-Type", "application/x-protobuf")
            self.send_header("Content-Length", str(len(answer)))
            self.end_headers()
            self.wfile.write(answer)

        def log_message(self, *_: object) -> None:
            """Says nothing."""

    class Server(ThreadingHTTPServer):
        daemon_threads = True
        block_on_close = False

        def handle_error(self, *_: object) -> None:
            """Says nothing of a client that left."""

    with Server(("127.0.0.1", 0), Handler) as server:
        collector.port = server.server_address[1]
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        try:
            yield collector
        finally:
            collector.open.set()
            server.shutdown()
            thread.join()
