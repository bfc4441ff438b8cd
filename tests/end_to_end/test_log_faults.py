"""A log that cannot be written, or has no file to go to, costs lines and nothing else."""

import os
import signal
import subprocess
import sys
from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import httpx
import pytest

from tests.deploy.balancers import answers, free_ports
from tests.end_to_end.servers import PATIENCE, ROOT, TLS, RunningService, environment, wait_until


@contextmanager
def started(
    checkpoint: Path, *, output: int = subprocess.DEVNULL, closed: Sequence[int] = ()
) -> Iterator[RunningService]:
    """Runs the service with such an output and some standard descriptors closed."""
    [port] = free_ports(1)
    options = ("--port", str(port), "--checkpoint", str(checkpoint), "--threads", "1")
    with subprocess.Popen(
        [sys.executable, "-m", "service", *options, "--drain-seconds", "2"],
        cwd=ROOT,
        env=environment(),
        stdin=subprocess.DEVNULL,
        stdout=output,
        stderr=subprocess.PIPE,
        preexec_fn=lambda: deque(map(os.close, closed), maxlen=0),
    ) as process:
        try:
            running = RunningService(process, f"http://127.0.0.1:{port}", Path(os.devnull))
            wait_until(lambda: answers(f"{running.url}/health/ready"))
            yield running
        finally:
            process.kill()


@pytest.mark.parametrize("case", ["full disk", "reader waits"])
def test_requests_are_answered_and_the_process_ends_in_order(
    checkpoint_folder: Path, case: str
) -> None:
    if case == "full disk" and not Path("/dev/full").exists():
        pytest.skip("this system has no /dev/full")
    reading, writing = os.pipe()
    output = os.open("/dev/full", os.O_WRONLY) if case == "full disk" else writing
    with started(checkpoint_folder, output=output) as running:
        # The lines of these would fill any pipe.
        with httpx.Client(base_url=running.url, timeout=PATIENCE, verify=TLS) as client:
            for _ in range(300):
                response = client.get("/model", headers={"x-request-id": "x" * 128})
                assert response.status_code == 200
        if case == "full disk":
            assert running.metric("headlight_log_lines_lost") > 0
        running.process.send_signal(signal.SIGTERM)
        assert running.process.wait(PATIENCE) == 0
        assert running.process.stderr is not None
        assert running.process.stderr.read() == b""
    for each in {reading, writing, output}:
        os.close(each)


@pytest.mark.skipif(sys.platform != "linux", reason="files are looked up in /proc")
@pytest.mark.parametrize("closed", [(1,), (0, 2), (0, 1, 2)])
def test_closed_streams_are_no_sockets_and_a_closed_terminal_drains(
    checkpoint_folder: Path, closed: Sequence[int]
) -> None:
    with started(checkpoint_folder, closed=closed) as running:
        files = Path(f"/proc/{running.process.pid}/fd")
        assert {(files / str(each)).readlink() for each in closed} == {Path(os.devnull)}
        running.process.send_signal(signal.SIGHUP)
        wait_until(lambda: running.get("/health/ready").status_code == 503)
        assert running.get("/health/live").status_code == 200
        assert running.process.wait(PATIENCE) == 0
        assert running.process.stderr is not None
        # Without standard output, the log goes there.
        assert (b"not ready any more" in running.process.stderr.read()) is (closed == (1,))
