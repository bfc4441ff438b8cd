"""A small HTTP server on a real socket that answers as a script says, and notes what it was asked.

It stands for what a healthy service does not do on demand: to refuse, to break off, to be silent,
to trickle.
"""

import json
import socket
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import NamedTuple

from headlight_client import ModelName, Prediction


@dataclass(frozen=True, slots=True)
class Reply:
    """One answer.

    Args:
        status: 0 closes the connection instead, -1 is silent until the end.
        header_pause: seconds before each header.
        body_pause: seconds before each byte of the body.
        body_bytes: how many bytes of the body are sent before silence; all if None.
    """

    status: int
    content: bytes = b""
    headers: Mapping[str, str] = field(default_factory=dict)
    header_pause: float = 0.0
    body_pause: float = 0.0
    body_bytes: int | None = None


@dataclass(frozen=True, slots=True)
class Request:
    """A request, with the names of its headers in lower case."""

    method: str
    path: str
    headers: Mapping[str, str]
    body: bytes


class Scripted(NamedTuple):
    """A server that runs, and the requests in the order in which they came."""

    url: str
    requests: list[Request]


def problem(status: int, kind: str, *, detail: str = "It is so.", **members: object) -> Reply:
    content = {"type": f"/problems/{kind}", "title": "A title", "status": status, "detail": detail}
    headers = {"Content-Type": "application/problem+json", "X-Request-ID": "id-1"}
    return Reply(status, json.dumps(content | members).encode(), headers)


def answered(content: object) -> Reply:
    return Reply(200, json.dumps(content).encode(), {"Content-Type": "application/json"})


def predicted(*labels: str) -> Reply:
    """The answer of `/predict` with these labels; `prediction` is what a client makes of each."""
    model = {"name": "m", "version": "v"}
    members = {"score": 0.75, "token_count": 3, "truncated": False}
    return answered(
        {
            "model": model,
            "predictions": [
                {"label": label, "probabilities": {label: 0.75, "other": 0.25}, **members}
                for label in labels
            ],
        }
    )


def prediction(label: str) -> Prediction:
    """What a client makes of one label of `predicted`."""
    probabilities = {label: 0.75, "other": 0.25}
    return Prediction(label, 0.75, probabilities, 3, truncated=False, model=ModelName("m", "v"))


@contextmanager
def scripted(replies: Sequence[Reply]) -> Iterator[Scripted]:
    """Runs a server that gives one answer after the other, and the last one again and again."""
    waiting = list(replies)
    requests: list[Request] = []
    ended = threading.Event()

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length", "0")))
            headers = {name.lower(): value for name, value in self.headers.items()}
            requests.append(Request(self.command, self.path, headers, body))
            reply = waiting.pop(0) if len(waiting) > 1 else waiting[0]
            if reply.status <= 0:
                if reply.status < 0:
                    ended.wait()
                self.close_connection = True
                return
            self.send_response(reply.status)
            # Who asked may have left while the answer trickled.
            with suppress(ConnectionError):
                self.write(reply)

        def write(self, reply: Reply) -> None:
            for name, value in {**reply.headers, "Content-Length": len(reply.content)}.items():
                if reply.header_pause:
                    self.flush_headers()
                    ended.wait(reply.header_pause)
                self.send_header(name, str(value))
            self.end_headers()
            sent = reply.content[: reply.body_bytes]
            size = 1 if reply.body_pause else max(len(sent), 1)
            for start in range(0, len(sent), size):
                ended.wait(reply.body_pause)
                self.wfile.write(sent[start : start + size])
            if len(sent) < len(reply.content):
                ended.wait()
                self.close_connection = True

        do_POST = do_GET  # noqa: N815 - the name that the base class looks for

        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield Scripted(f"http://127.0.0.1:{server.server_address[1]}", requests)
    finally:
        ended.set()
        server.shutdown()
        thread.join()
        server.server_close()


@contextmanager
def unused_address() -> Iterator[str]:
    """An address that refuses connections: bound, so that nobody else listens there."""
    with socket.socket() as bound:
        bound.bind(("127.0.0.1", 0))
        yield f"http://127.0.0.1:{bound.getsockname()[1]}"
