"""Runs Python in a process of its own."""

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
# What the fixture `usage_fault` is.
UsageFault = Callable[..., str]


def run_python(
    *arguments: object,
    check: bool = True,
    **options: Any,  # noqa: ANN401
) -> subprocess.CompletedProcess[str]:
    """Runs it to its end in the project's folder; asserts the status 0 unless told otherwise."""
    command = [sys.executable, *map(str, arguments)]
    streams = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True, "cwd": ROOT}
    done = subprocess.run(command, check=False, **{**streams, **options})
    assert not check or done.returncode == 0, done.stderr
    return done
