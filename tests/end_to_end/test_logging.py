"""Whatever becomes of the log, requests are answered and the process ends as it should."""

import os
import signal
import socket
import subprocess
import sys
from pathlib import Path

import httpx
import pytest

from tests.end_to_end.servers import ROOT, TLS, environment, wait_until

FULL = Path("/dev/full")


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port: int = taken.getsockname()[1]
    return port


def answers(url: str) -> bool:
    try:
        return httpx.get(f"{url}/health/ready", timeout=60, verify=TLS).status_code == 200
    except httpx.ConnectError:
        return False


@pytest.mark.parametrize("fault", ["closed", "full disk"])
def test_no_fault_of_the_log_ends_or_delays_the_service(
    checkpoint_folder: Path, fault: str
) -> None:
    if fault == "full disk" and not FULL.exists():
        pytest.skip("this system has no /dev/full")
    port = free_port()
    options = ("--port", str(port), "--checkpoint", str(checkpoint_folder), "--threads", "1")
    reading, writing = os.pipe()
    output = os.open(FULL, os.O_WRONLY) if fault == "full disk" else os.dup(writing)
    with subprocess.Popen(
        [sys.executable, "-m", "service", *options, "--drain-seconds", "0"],
        cwd=ROOT,
        env=environment(),
        stdin=subprocess.DEVNULL,
        stdout=output,
        stderr=subprocess.PIPE,
    ) as process:
        try:
            for each in (output, writing):
                os.close(each)
            if fault == "closed":  # as by `| head -0`
                os.close(reading)
            url = f"http://127.0.0.1:{port}"
            wait_until(lambda: answers(url))
            with httpx.Client(base_url=url, timeout=60, verify=TLS) as client:
                # The lines of these would fill any pipe.
                for _ in range(600):
                    response = client.get("/model", headers={"x-request-id": "x" * 128})
                    assert response.status_code == 200
                lost = "headlight_log_lines_lost 0.0" not in client.get("/metrics").text
            process.send_signal(signal.SIGTERM)
            assert process.wait(60) == 0
            assert process.stderr is not None
            assert process.stderr.read() == b""
            assert lost
        finally:
            process.kill()
            if fault != "closed":
                os.close(reading)
