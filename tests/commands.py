"""Runs commands to their end."""

# ruff: noqa: ANN401 - options of `subprocess`

import os
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NoReturn

import pytest

ROOT = Path(__file__).parents[1]


def finish(
    *command: object, folder: Path = ROOT, env: Mapping[str, str] | None = None, **options: Any
) -> subprocess.CompletedProcess[str]:
    """What a command said, and its status, whichever it is."""
    words = [str(word) for word in command]
    return subprocess.run(
        words, cwd=folder, env=env, capture_output=True, text=True, check=False, **options
    )


def printed(*command: object, **options: Any) -> str:
    """What a command prints that works."""
    done = finish(*command, **options)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def give_up(reason: str) -> NoReturn:
    """Ends a test for want of a tool, which CI has to have."""
    (pytest.fail if "CI" in os.environ else pytest.skip)(reason)
