"""SIGTERM, SIGINT, and a second signal; and a log that cannot be written costs only lines."""

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

from model.backends.kernels import choose_set
from tests.deploy.balancers import answers, free_ports
from tests.end_to_end.conftest import Start
from tests.end_to_end.routes import ROUTES, assert_problem, send
from tests.end_to_end.servers import (
    PATIENCE,
    ROOT,
    TLS,
    RunningService,
    environment,
    receive_all,
    service,
    wait_until,
)

# The service where torch is not installed, nor what trains.
WITHOUT_EXTRAS = """
import sys
for name in ("matplotlib", "pyarrow", "scipy", "sklearn", "torch", "tqdm", "transformers"):
    sys.modules[name] = None  # importing it fails
from service.__main__ import main
sys.exit(main(sys.argv[1:]))
"""


def test_sigterm_drains_and_then_ends_with_0(checkpoint_folder: Path, tmp_path: Path) -> None:
    if choose_set("float32") is None:
        pytest.skip("without kernels torch computes")
    program = ("-c", WITHOUT_EXTRAS)
    with service(checkpoint_folder, tmp_path, "--drain-seconds", "2", program=program) as running:
        with running.client() as kept:
            assert kept.get("/health/ready").headers.get("connection") is None
            running.process.send_signal(signal.SIGTERM)
            ready = running.wait_for(503)
            assert_problem(ready, 503, "draining")
            for path in ("/health", "/ping", "/v2/health/ready", "/v2/models/tiny/ready"):
                assert_problem(kept.get(path), 503, "draining", foreign=True)
            assert ready.headers["connection"] == "close"
            for name, route in ROUTES.items():  # on a new connection each
                answer = send(kept, route, "good")
                if name in ("attributions", "importance"):
                    says = "need the package torch, which is not installed here"
                    assert_problem(answer, 501, "not-installed", says=says)
                else:
                    assert answer.status_code == 200
                assert answer.headers["connection"] == "close"
            live = running.get("/health/live")
            assert (live.status_code, live.headers["connection"]) == (200, "close")
            assert running.metric("headlight_ready") == 0
        assert running.process.wait(PATIENCE) == 0
        with pytest.raises(httpx.ConnectError):
            running.get("/health/live")


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_before_anything_is_served_ends_it_too(number: signal.Signals) -> None:
    """As the first process of a container it would get none that nothing handles."""
    with subprocess.Popen(
        [sys.executable, "-X", "importtime", "-m", "service"],
        cwd=ROOT,
        env=environment(),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        loading = next(line for line in process.stderr if "fastapi." in line)
        process.send_signal(number)
        said = process.stdout.read() + process.stderr.read()

    assert process.returncode == 128 + number
    assert "import time:" in loading
    assert {line.partition(":")[0] for line in said.splitlines()} <= {"import time"}


def test_what_waits_behind_the_last_answer_of_a_connection_is_left_to_other_replicas(
    checkpoint_folder: Path, tmp_path: Path
) -> None:
    body = b'{"sentences": ["good"]}'
    request = (
        b"POST /predict HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n"
        b"Content-Length: %d\r\n\r\n%s" % (len(body), body)
    )
    program = ("-m", "tests.end_to_end.misbehaving", str(tmp_path))
    with service(checkpoint_folder, tmp_path, "--drain-seconds", "0", program=program) as running:
        warm_up = _passes(tmp_path)
        (tmp_path / "pass").write_text("hold", encoding="ascii")
        with running.connect() as connection:
            connection.sendall(request + request)
            wait_until(lambda: running.metric("headlight_queue_requests") == 1)
            running.process.send_signal(signal.SIGTERM)
            wait_until(lambda: not running.accepts())
            (tmp_path / "pass").unlink()
            received = receive_all(connection)
        assert received.startswith(b"HTTP/1.1 200 OK\r\n")
        assert received.count(b"HTTP/1.1 ") == 1
        assert b"\r\nconnection: close\r\n" in received
        assert running.process.wait(PATIENCE) == 0
    assert _passes(tmp_path) == warm_up + 1


def _passes(folder: Path) -> int:
    return len((folder / "computed").read_text("ascii").splitlines())


def test_a_second_signal_ends_at_once(checkpoint_folder: Path, tmp_path: Path) -> None:
    with service(checkpoint_folder, tmp_path, "--drain-seconds", "3600") as running:
        running.process.send_signal(signal.SIGTERM)
        running.wait_for(503)
        running.process.send_signal(signal.SIGTERM)
        assert running.process.wait(PATIENCE) == 128 + signal.SIGTERM


def test_sigint_does_not_wait(start: Start) -> None:
    with start("--drain-seconds", "3600"):
        pass  # it gets one, and has to end


def test_sigterm_while_the_model_loads(checkpoint_folder: Path, tmp_path: Path) -> None:
    (tmp_path / "load").write_text("1.5", encoding="ascii")
    program = ("-m", "tests.end_to_end.misbehaving", str(tmp_path))
    options = ("--drain-seconds", "0.2")
    with service(checkpoint_folder, tmp_path, *options, program=program, ready=False) as running:
        running.process.send_signal(signal.SIGTERM)
        assert running.process.wait(PATIENCE) == 0
    assert "rror" not in running.log.read_text("utf-8").replace("uvicorn.error", "")


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
@pytest.mark.parametrize("closed", [(1,), (0, 1, 2)])
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
