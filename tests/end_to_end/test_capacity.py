"""More connections, slower readers and less memory than there should be; clients that do not go."""

import json
import signal
import socket
import time
from contextlib import ExitStack
from pathlib import Path
from unittest import mock

import pytest

from model.backends import threads
from tests.end_to_end.conftest import Start
from tests.end_to_end.routes import JSON, assert_problem
from tests.end_to_end.servers import RunningService, receive_all, service, wait_until
from tests.resilience.readers import slow_readers

FULL = "all connections are taken"
ROOM = "there is room for connections again"
SMALL = {"sentences": ["good"]}
# The tiny model answers this with 13 MB, which is more than the kernel holds.
LARGE = {"sentences": ["good " * 30] * 256}
LIMIT = 250_000  # of a body
CHUNKED = b"POST /predict HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n"


def predict(running: RunningService) -> int:
    """The status of a prediction on a new connection."""
    with running.client() as client:
        return client.post("/predict", json=SMALL).status_code


def lines(running: RunningService, text: str) -> int:
    """How often the log says something."""
    return running.log.read_text("utf-8").count(text)


def test_health_is_answered_beside_more_connections_than_there_may_be(
    checkpoint_folder: Path, tmp_path: Path
) -> None:
    files, most = 120, 48
    limited = (
        "import resource, sys; "
        f"resource.setrlimit(resource.RLIMIT_NOFILE, ({files}, {files})); "
        "from service.__main__ import main; sys.exit(main())"
    )
    with (
        service(checkpoint_folder, tmp_path, program=("-c", limited)) as running,
        ExitStack() as idle,
    ):
        for _ in range(150):  # they say nothing, and the service may close some at once
            idle.enter_context(running.connect())
        for path in ("/health/live", "/health/ready"):
            assert running.get(path).status_code == 200
        time.sleep(1.1)  # who is silent for a second is idle
        assert [predict(running) for _ in range(3)] == [200] * 3
        assert running.metric("headlight_connections") <= most + 16
        assert running.metric("headlight_process_open_fds") <= files
        assert lines(running, FULL) == 1
        idle.close()
        wait_until(lambda: running.metric("headlight_connections") < most * 0.9)
        assert predict(running) == 200
        assert lines(running, ROOM) == 1
        assert running.get("/model").json()["limits"]["max_connections"] == most
        assert running.errors() == []


def test_slow_readers_take_no_more_than_their_share(
    start: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    most = 70_000_000
    monkeypatch.setattr("service.app.SENDING_BYTES", most)
    with start("--request-timeout", "600") as running, running.client() as answers:
        whole = answers.post("/attention", json=LARGE)
        assert whole.status_code == 200
        assert 12_000_000 < len(whole.content) < 14_000_000
        wait_until(lambda: running.metric("headlight_sending_bytes") == 0)
        with slow_readers(running.port, 40, rate=1, body=LARGE) as (statuses, _):
            wait_until(lambda: statuses.total() == 40)
            assert set(statuses) == {"200", "503"}
            assert 0 < running.metric("headlight_sending_bytes") <= most
            assert answers.post("/predict", json=SMALL).status_code == 200
            assert answers.get("/openapi.json").status_code == 200
            assert running.refused() == {"sending": statuses["503"]}
        # They have gone, and others can ask again.
        wait_until(lambda: running.metric("headlight_sending_bytes") == 0)
        assert answers.post("/attention", json=LARGE).status_code == 200
        assert running.errors() == []


def test_a_full_memory_refuses_the_large_first_and_never_health(
    start: Start, tmp_path: Path
) -> None:
    (tmp_path / "own").write_text("0::/app\n", "ascii")
    group = tmp_path / "app"
    group.mkdir()
    (group / "memory.max").write_text("1000000", "ascii")
    (group / "memory.stat").write_text("inactive_file 100000", "ascii")
    (group / "memory.current").write_text("0", "ascii")
    changes = mock.patch.multiple(threads, _ROOT=tmp_path, _OWN=tmp_path / "own")
    large_body = json.dumps(SMALL).ljust(70_000)

    def fill(share: float) -> list[int]:
        (group / "memory.current").write_text(str(round(share * 1_000_000) + 100_000), "ascii")
        time.sleep(0.3)  # it is read four times a second
        asked = [
            client.get("/health/ready"),
            client.post("/predict", json=SMALL),
            client.post("/predict", content=large_body, headers=JSON),
            client.post("/attention", json=LARGE),
        ]
        return [response.status_code for response in asked]

    with start(changes=changes) as running, running.client() as client:
        assert fill(0.92) == [200, 200, 503, 503]
        assert fill(0.96) == [200, 503, 503, 503]
        refused = client.post("/predict", json=SMALL)
        assert_problem(refused, 503, "overloaded", says="96% of the memory is in use")
        assert refused.headers["retry-after"] == "2"
        assert running.refused() == {"memory": 6}
        assert running.errors() == []


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

        def in_progress() -> float:
            return running.metric("headlight_requests_in_progress")

        stalled.sendall(attention(8))
        lingering.sendall(CHUNKED + b"\r\n%x\r\n" % (LIMIT + 1) + b" " * (LIMIT + 1))
        assert lingering.recv(100).startswith(b"HTTP/1.1 413 ")
        answered_early.sendall(CHUNKED + b"Accept: text/html\r\n\r\n")
        assert answered_early.recv(100).startswith(b"HTTP/1.1 406 ")
        # A request is in hand beside the one that asks, and none is computed.
        wait_until(lambda: in_progress() == 2 and running.metric("headlight_queue_requests") == 0)
        (tmp_path / "pass").write_text("hold", encoding="ascii")
        pipeline.sendall(attention(2))
        half_body.sendall(attention(1)[:-1])
        wait_until(lambda: in_progress() == 4)
        running.process.send_signal(signal.SIGTERM)
        wait_until(lambda: not running.accepts())
        (tmp_path / "pass").unlink()
        answers = receive_all(pipeline)
        assert answers.startswith(b"HTTP/1.1 200 ")
        assert answers.count(b"HTTP/1.1 ") == 1
        assert receive_all(half_body).startswith(b"HTTP/1.1 504 ")
        assert running.process.wait(60) == 0
        assert running.errors() == []
