"""A log that cannot be written, or that nobody reads, costs lines and nothing else."""

import fcntl
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import httpx
import pytest

from tests.end_to_end.servers import PATIENCE, ROOT, RunningService, environment, wait_until

_SMALL_PIPE = 4096


@contextmanager
def logging_to(output: int | None, checkpoint: Path) -> Iterator[RunningService]:
    """Runs the service with this open file as its standard output; None: with none."""
    with closing(socket.socket()) as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    command = [sys.executable, "-m", "service", "--port", str(port)]
    process = subprocess.Popen(
        [*command, "--checkpoint", str(checkpoint), "--threads", "1", "--drain-seconds", "0"],
        stdout=subprocess.DEVNULL if output is None else output,
        stderr=subprocess.DEVNULL,
        cwd=ROOT,
        env=environment(),
        preexec_fn=(lambda: os.close(1)) if output is None else None,
    )
    running = RunningService(process, f"http://127.0.0.1:{port}", Path(os.devnull))

    def is_ready() -> bool:
        assert process.poll() is None
        try:
            with running.client() as client:
                return client.get("/health/ready").status_code == 200
        except httpx.ConnectError:
            return False

    try:
        wait_until(is_ready)
        yield running
    finally:
        process.kill()
        process.wait()


def ask_and_end(running: RunningService) -> float:
    """Gets a right answer to each of many requests, and an orderly end; returns the lost lines."""
    with running.client() as client:
        for _ in range(200):
            assert client.post("/predict", json={"sentences": ["good"]}).status_code == 200
        assert client.get("/health/live").status_code == 200
        lost = running.metric("headlight_log_lines_lost")
    running.process.send_signal(signal.SIGTERM)
    assert running.process.wait(PATIENCE) == 0
    return lost


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="only Linux has /dev/full, a full disk")
def test_a_full_disk(checkpoint_folder: Path) -> None:
    with (
        Path("/dev/full").open("wb") as full,
        logging_to(full.fileno(), checkpoint_folder) as running,
    ):
        assert ask_and_end(running) >= 200


def test_a_reader_that_has_gone(checkpoint_folder: Path) -> None:
    reader, writer = os.pipe()
    with logging_to(writer, checkpoint_folder) as running:
        os.close(writer)
        os.close(reader)
        assert ask_and_end(running) >= 200


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux sets the size of a pipe")
def test_a_reader_that_does_not_read(checkpoint_folder: Path) -> None:
    reader, writer = os.pipe()
    fcntl.fcntl(writer, fcntl.F_SETPIPE_SZ, _SMALL_PIPE)
    with logging_to(writer, checkpoint_folder) as running:
        os.close(writer)
        ask_and_end(running)
        os.close(reader)


def test_no_standard_output(checkpoint_folder: Path) -> None:
    with logging_to(None, checkpoint_folder) as running:
        ask_and_end(running)
