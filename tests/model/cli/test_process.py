"""What a command does with its streams and with the signal of a closed terminal."""

import itertools
import json
import signal
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest

from model.cli import process
from tests.programs import run_python

# By its path, because the package takes seconds to import.
PROGRAM = """
import json, os, runpy, signal, subprocess, sys
signal.signal(signal.SIGTERM, lambda number, _: caught.append(number))
caught = []
runpy.run_path(sys.argv[1])["prepare_process"]()
found = {"next": os.open(os.devnull, os.O_RDONLY), "merged": sys.stdout is sys.stderr}
print("out", end="", flush=True)
print("err", end="", file=sys.stderr, flush=True)
found["read"] = sys.stdin.read()
found["child"] = subprocess.run([sys.executable, "-c", "import sys; print(1); input()"]).returncode
os.kill(os.getpid(), signal.SIGHUP)
open(sys.argv[2], "w").write(json.dumps({**found, "caught": caught}))
"""
CLOSED = [each for count in range(4) for each in itertools.combinations((0, 1, 2), count)]


def run(folder: Path, before: str) -> tuple[dict[str, Any], str, str]:
    """What a process finds behind a command of the shell, and what it writes."""
    command = f'{before} exec "$@"'
    arguments = [sys.executable, "-c", PROGRAM, process.__file__, str(folder / "found")]
    done = subprocess.run(
        ["sh", "-c", command, "sh", *arguments], input="in\nin\n", capture_output=True, text=True
    )
    return json.loads((folder / "found").read_text()), done.stdout, done.stderr


@pytest.mark.parametrize("closed", CLOSED)
def test_closed_streams_are_opened_on_the_null_device(
    tmp_path: Path, closed: Iterable[int]
) -> None:
    found, out, err = run(tmp_path, " ".join(f"exec {each}>&-;" for each in closed))
    assert found["next"] == 3
    assert found["merged"] is (1 in closed)
    assert found["read"] == ("" if 0 in closed else "in\nin\n")
    assert out == ("" if 1 in closed else "out1\n")
    assert found["child"] == 1  # it has read to the end of what is there, and said so
    assert found["caught"] == [signal.SIGTERM]
    if 2 in closed:
        assert err == ""
    else:
        assert err.startswith("outerr" if 1 in closed else "err")


def test_a_hang_up_that_is_ignored_stays_so(tmp_path: Path) -> None:
    found, _, _ = run(tmp_path, "trap '' HUP;")
    assert found["caught"] == []


def test_a_stream_shows_escapes_of_what_it_cannot_write() -> None:
    program = f"import runpy; runpy.run_path({process.__file__!r})['prepare_process'](); print('é')"
    environment = {"PYTHONIOENCODING": "ascii"}
    said = run_python("-c", program, env=environment)
    assert said.stdout == "\\xe9\n"
