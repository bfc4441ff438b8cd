"""The container's health check, run as the image runs it."""

import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parents[2] / "deploy" / "healthcheck.py"


@contextmanager
def _replica(status: int, asked: list[str]) -> Iterator[int]:
    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            asked.append(self.path)
            self.send_response(status)
            self.end_headers()

        def log_message(self, *arguments: object) -> None:
            pass

    with HTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield server.server_port
        server.shutdown()
        thread.join()


def _check(port: int) -> int:
    environment = {**os.environ, "HEADLIGHT_PORT": str(port)}
    command = [sys.executable, "-E", "-S", str(SCRIPT)]
    return subprocess.run(command, env=environment, timeout=30, check=False).returncode


@pytest.mark.parametrize(("status", "code"), [(200, 0), (503, 1), (404, 1)])
def test_tells_a_ready_replica_from_others(status: int, code: int) -> None:
    asked: list[str] = []
    with _replica(status, asked) as port:
        assert _check(port) == code
    assert asked == ["/health/ready"]


def test_nobody_there_is_not_ready() -> None:
    with _replica(200, []) as port:
        pass
    assert _check(port) == 1
