"""A log that cannot be written, or that nobody reads, costs lines and nothing else."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import httpx
import pytest

from tests.deploy.balancers import answers, free_ports
from tests.end_to_end.servers import PATIENCE, ROOT, TLS, RunningService, environment, wait_until


@pytest.mark.parametrize("case", ["full disk", "reader waits", "none"])
def test_requests_are_answered_and_the_process_ends_in_order(
    checkpoint_folder: Path, case: str
) -> None:
    if case == "full disk" and not Path("/dev/full").exists():
        pytest.skip("this system has no /dev/full")
    reading, writing = os.pipe()
    output = os.open("/dev/full", os.O_WRONLY) if case == "full disk" else os.dup(writing)
    [port] = free_ports(1)
    options = ("--port", str(port), "--checkpoint", str(checkpoint_folder), "--threads", "1")
    with subprocess.Popen(
        [sys.executable, "-m", "service", *options, "--drain-seconds", "0"],
        cwd=ROOT,
        env=environment(),
        stdin=subprocess.DEVNULL,
        stdout=output,
        stderr=subprocess.PIPE,
        preexec_fn=(lambda: os.close(1)) if case == "none" else None,
    ) as process:
        try:
            for each in (output, writing):
                os.close(each)
            running = RunningService(process, f"http://127.0.0.1:{port}", Path(os.devnull))
            wait_until(lambda: answers(f"{running.url}/health/ready"))
            with httpx.Client(base_url=running.url, timeout=PATIENCE, verify=TLS) as client:
                # The lines of these would fill any pipe.
                for _ in range(300):
                    response = client.get("/model", headers={"x-request-id": "x" * 128})
                    assert response.status_code == 200
            if case == "full disk":
                assert running.metric("headlight_log_lines_lost") > 0
            process.send_signal(signal.SIGTERM)
            assert process.wait(PATIENCE) == 0
            assert process.stderr is not None
            assert case == "none" or process.stderr.read() == b""
        finally:
            process.kill()
            os.close(reading)
