"""Trains on several processes that are killed again and again; the weights must be the same.

If a round has no interruption, `torchrun` starts killed processes again, and the weights are, byte
for byte, those of an undisturbed run. Otherwise the run also goes on with another number of
processes, and the weights are within 1e-5 of those of one process.
"""

import os
import random
import signal
import subprocess
import time
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from model.files import WEIGHTS
from tests.training.torchrun import assert_close, children, command, start, write_files

_PATIENCE = 900
_COUNTS = (2, 3, 1)
_MOST_RESTARTS = 100
_ROWS = 160


@dataclass(frozen=True, slots=True)
class Outcome:
    """How many processes were killed, how many commands interrupted, and what was wrong."""

    killed: int
    interrupted: int
    fault: str | None


def training_round(
    folder: Path, *, kills: int, interruptions: int, epochs: int, chance: random.Random
) -> Outcome:
    """Trains undisturbed, then disturbed, and compares."""
    folder.mkdir()
    write_files(folder, rows=_ROWS)
    options = ("--epochs", str(epochs), "--patience", str(epochs))
    whole, output = folder / "whole", folder / "disturbed"
    error = _end(start(1 if interruptions else 2, command(folder, whole, *options)))
    if error is not None:
        return Outcome(0, 0, f"the undisturbed run: {error}")
    arguments = command(folder, output, *options, "--save-every", "1")
    killed = interrupted = 0
    events = ["kill"] * kills + ["interrupt"] * interruptions
    chance.shuffle(events)
    while True:
        count = _COUNTS[interrupted % len(_COUNTS)]
        process = start(count, arguments, f"--max-restarts={_MOST_RESTARTS}")
        stopped = False
        while events and not stopped and _wait(process, output, chance.randrange(1, 6)):
            stopped = events.pop() == "interrupt" or count == 1
            if stopped:
                process.send_signal(signal.SIGTERM)
                interrupted += 1
            else:
                killed += _kill(process, chance)
        error = _end(process)
        if error is None:
            break
        if not stopped:
            return Outcome(killed, interrupted, error)
        if "--resume" not in arguments:
            arguments.append("--resume")
    return Outcome(killed, interrupted, _difference(whole, output, exact=not interruptions))


def _wait(process: subprocess.Popen[str], output: Path, states: int) -> bool:
    """Waits for further states to be written; returns whether the run still goes on."""
    position = output.with_name(f"{output.name}.run") / "state" / "position.json"
    until = time.monotonic() + _PATIENCE
    before = None
    while process.poll() is None and time.monotonic() < until:
        with suppress(FileNotFoundError):
            now = position.stat().st_mtime_ns
            states -= before is not None and now != before
            before = now
        if states <= 0:
            return True
        time.sleep(0.002)
    return False


def _kill(process: subprocess.Popen[str], chance: random.Random) -> int:
    ranks = children(process.pid)
    if not ranks:
        return 0
    with suppress(ProcessLookupError):
        os.kill(chance.choice(ranks), signal.SIGKILL)
        return 1
    return 0


def _end(process: subprocess.Popen[str]) -> str | None:
    """Waits for a run; returns its error if it failed."""
    try:
        _, error = process.communicate(timeout=_PATIENCE)
    except subprocess.TimeoutExpired:
        process.kill()
        return f"hangs: {process.communicate()[1]}"
    return None if process.returncode == 0 else error


def _difference(whole: Path, output: Path, *, exact: bool) -> str | None:
    if exact:
        same = (whole / WEIGHTS).read_bytes() == (output / WEIGHTS).read_bytes()
        return None if same else "the weights are other bytes"
    try:
        assert_close(whole, output)
    except AssertionError as error:
        return str(error)
    return None
