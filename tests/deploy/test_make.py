"""`make serve` and `make install` say what they do, with and without a terminal."""

import os
import re
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import httpx
import pytest

from tests.end_to_end.servers import ROOT, TLS, environment

pytestmark = pytest.mark.skipif(shutil.which("make") is None, reason="make is not installed")
# Stands for the Python of .venv: pip and the compiler only take a while; the service is real.
STAND_IN = f"""#!/bin/sh
case "$*" in
  *uninstall*) ;;
  "-m pip "*" install "*) echo "pip $*"; sleep 0.8 ;;
  *compiler.py*) sleep 0.8; : >"$2" ;;
  *) exec {sys.executable} "$@" ;;
esac
"""
STEPS = [
    r"Step 1 of 3: torch, about 200 MB to download \(several GB with CUDA\)",
    r"pip .* --index-url \S+ torch==\S+ --progress-bar off",
    r"Step 2 of 3: what else serving needs, about 50 MB to download",
    r"pip .* --constraint constraints.txt --editable \. --progress-bar off",
    r"Step 3 of 3: compile the kernels, less than a minute",
]
AGAIN = r"  still at it after \d+ s"


@pytest.fixture
def command(tmp_path: Path) -> list[str]:
    """The options of make that keep all it writes in a folder of the test."""
    python = tmp_path / "venv" / "bin" / "python"
    python.parent.mkdir(parents=True)
    python.write_text(STAND_IN)
    python.chmod(0o755)
    return [f"VENV={tmp_path / 'venv'}", f"KERNELS={tmp_path / 'kernels.so'}", "EVERY=0.2"]


def variables() -> dict[str, str]:
    return {name: value for name, value in environment().items() if "MAKE" not in name}


def test_serving_says_each_step_and_the_address_comes_last(
    command: list[str], checkpoint_folder: Path
) -> None:
    arguments = f"ARGS=--port 0 --checkpoint {checkpoint_folder} --threads 1 --log-format text"
    lines: list[str] = []
    with subprocess.Popen(
        ["make", "serve", *command, arguments],
        cwd=ROOT,
        env=variables(),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        text=True,
        start_new_session=True,
    ) as process:
        try:
            assert process.stdout is not None
            for line in process.stdout:
                lines.append(line.rstrip("\n"))
                if found := re.search(r"the page is at (\S+)$", line):
                    break
            assert found is not None, lines
            assert httpx.get(f"{found[1]}health/ready", verify=TLS).status_code == 200
        finally:
            os.killpg(process.pid, signal.SIGINT)
        rest = process.stdout.read()
    assert "the page is at" not in rest
    starting = (
        "Starting the service: the address of the page is the last line, once the model is ready"
    )
    start = lines.index(starting)
    steps = [line for line in lines[:start] if not re.fullmatch(AGAIN, line)]
    assert len(steps) == len(STEPS)
    assert all(map(re.fullmatch, STEPS, steps)), steps
    # At least one line in each step that takes several times as long as lines are apart.
    named = [index for index, line in enumerate(lines[:start]) if line.startswith("pip ")]
    for index in (*named, next(at for at in range(start) if lines[at].startswith("Step 3"))):
        assert re.fullmatch(AGAIN, lines[index + 1]), lines
    log = lines[start + 1 :]
    assert "while the model loads" in "".join(log[:-2])
    assert "model ready" in log[-2]

    again = subprocess.run(
        ["make", "install", *command], cwd=ROOT, env=variables(), capture_output=True, check=True
    )
    assert b"Step" not in again.stdout
