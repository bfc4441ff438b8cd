"""Clients that send too much, read too little or do not go, and what they cost everybody else."""

import json
import signal
import socket
from pathlib import Path

from tests.end_to_end.servers import (
    RunningService,
    receive_all,
    service,
    wait_until,
)

LIMIT = 250_000  # of a body
JSON = {"content-type": "application/json"}
CHUNKED = b"POST /predict HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n"


def test_clients_that_are_still_sending_get_the_413(running: RunningService) -> None:
    for _ in range(10):
        with running.client(**JSON) as client:
            assert client.post("/predict", content=b" " * 4_000_000).status_code == 413


def attention(count: int) -> bytes:
    """So many requests, each for an answer of more than a megabyte."""
    body = json.dumps({"sentences": ["good " * 30] * 40}).encode()
    head = b"POST /attention HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n"
    return (head + b"Content-Length: %d\r\n\r\n" % len(body) + body) * count


def connect_without_reading(running: RunningService) -> socket.socket:
    """A connection that takes little."""
    connection = socket.socket()
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    connection.connect(("127.0.0.1", running.port))
    return connection


def is_stalled(running: RunningService) -> bool:
    """Whether a request is in hand beside the one that asks, and none is computed."""
    return (
        running.metric("headlight_requests_in_progress") == 2
        and running.metric("headlight_queue_requests") == 0
    )


def test_no_connection_keeps_the_process_from_ending(
    checkpoint_folder: Path, tmp_path: Path
) -> None:
    program = ("-W", "error", "-m", "tests.end_to_end.misbehaving", str(tmp_path))
    options = (
        "--request-timeout", "3", "--drain-seconds", "0", "--max-body-bytes", str(LIMIT)
    )  # fmt: skip
    with (
        service(checkpoint_folder, tmp_path, *options, program=program) as running,
        connect_without_reading(running) as stalled,
        running.connect() as lingering,
        running.connect() as half_body,
        running.connect() as answered_early,
        running.connect() as pipeline,
        running.connect(),
    ):
        stalled.sendall(attention(8))
        lingering.sendall(CHUNKED + b"\r\n%x\r\n" % (LIMIT + 1) + b" " * (LIMIT + 1))
        assert lingering.recv(100).startswith(b"HTTP/1.1 413 ")
        answered_early.sendall(CHUNKED + b"Accept: text/html\r\n\r\n")
        assert answered_early.recv(100).startswith(b"HTTP/1.1 406 ")
        wait_until(lambda: is_stalled(running))
        (tmp_path / "pass").write_text("hold", encoding="ascii")
        pipeline.sendall(attention(2))
        half_body.sendall(attention(1)[:-1])
        wait_until(lambda: running.metric("headlight_requests_in_progress") == 4)
        running.process.send_signal(signal.SIGTERM)
        wait_until(lambda: not running.accepts())
        (tmp_path / "pass").unlink()
        answers = receive_all(pipeline)
        assert answers.startswith(b"HTTP/1.1 200 ")
        assert answers.count(b"HTTP/1.1 ") == 1
        assert receive_all(half_body).startswith(b"HTTP/1.1 504 ")
        assert running.process.wait(60) == 0
        assert running.errors() == []
