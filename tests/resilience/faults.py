"""Scores files and trains while processes are killed and files go bad.

    python -m tests.resilience.faults --scoring 12 --training 6

The status is 0 if every output was that of an undisturbed run. If a round of training has no
interruption, `torchrun` starts killed processes again, and the weights are the same bytes.
Otherwise the run also goes on with another number of processes, and the weights are within 1e-5 of
those of one process.
"""

import argparse
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from contextlib import suppress
from pathlib import Path

from model.files import WEIGHTS
from tests.resilience.scoring_faults import ScoringRound
from tests.training.torchrun import assert_close, children, command, start, write_files

_PATIENCE = 900
_COUNTS = (2, 3, 1)


def score(folder: Path, *, size: int, faults: int, seed: int) -> str | None:
    """Scores files with this many faults; returns what was wrong."""
    folder.mkdir()
    scoring = ScoringRound(folder, size=size, seed=seed)
    scoring.run(most=faults)
    done = ", ".join(f"{kind} {count}" for kind, count in sorted(scoring.done.items()))
    print(f"scoring: {scoring.runs} runs, {done}", flush=True)
    return "; ".join(scoring.faults) or None


def train(
    folder: Path, *, kills: int, interruptions: int, epochs: int, chance: random.Random
) -> str | None:
    """Trains undisturbed, then disturbed; returns what was wrong."""
    folder.mkdir()
    write_files(folder, rows=160)
    options = ("--epochs", str(epochs), "--patience", str(epochs))
    whole, output = folder / "whole", folder / "disturbed"
    error = _end(start(1 if interruptions else 2, command(folder, whole, *options)))
    if error is not None:
        return f"the undisturbed run: {error}"
    arguments = command(folder, output, *options, "--save-every", "1")
    killed = interrupted = 0
    events = ["kill"] * kills + ["interrupt"] * interruptions
    chance.shuffle(events)
    while True:
        count = _COUNTS[interrupted % len(_COUNTS)]
        process = start(count, arguments, "--max-restarts=100")
        stopped = False
        while events and not stopped and _wait(process, output, chance.randrange(1, 6)):
            stopped = events.pop() == "interrupt" or count == 1
            if stopped:
                process.send_signal(signal.SIGTERM)
                interrupted += 1
            elif ranks := children(process.pid):
                with suppress(ProcessLookupError):
                    os.kill(chance.choice(ranks), signal.SIGKILL)
                    killed += 1
        error = _end(process)
        if error is None:
            break
        if not stopped:
            return error
        if "--resume" not in arguments:
            arguments.append("--resume")
    print(f"training: killed {killed}, interrupted {interrupted}", flush=True)
    return _difference(whole, output, exact=not interruptions)


def _difference(whole: Path, output: Path, *, exact: bool) -> str | None:
    if exact:
        same = (whole / WEIGHTS).read_bytes() == (output / WEIGHTS).read_bytes()
        return None if same else "the weights are other bytes"
    try:
        assert_close(whole, output)
    except AssertionError as wrong:
        return str(wrong)
    return None


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


def _end(process: subprocess.Popen[str]) -> str | None:
    """Waits for a run; returns its error if it failed."""
    try:
        _, error = process.communicate(timeout=_PATIENCE)
    except subprocess.TimeoutExpired:
        process.kill()
        return f"hangs: {process.communicate()[1]}"
    return None if process.returncode == 0 else error


def main() -> int:
    """Runs all rounds."""
    parser = argparse.ArgumentParser(description="Scores and trains while everything goes wrong.")
    parser.add_argument("--scoring", type=int, default=6, help="rounds of scoring")
    parser.add_argument("--size", type=int, default=10_000_000, help="bytes of a round of scoring")
    parser.add_argument("--faults", type=int, default=28, help="faults of a round of scoring")
    parser.add_argument("--training", type=int, default=4, help="rounds of training")
    parser.add_argument("--kills", type=int, default=6, help="kills of a round of training")
    parser.add_argument("--epochs", type=int, default=12, help="epochs of a round of training")
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    wrong = []
    with tempfile.TemporaryDirectory() as name:
        for number in range(options.scoring):
            folder, seed = Path(name) / f"scoring{number}", options.seed + number
            wrong.append(score(folder, size=options.size, faults=options.faults, seed=seed))
        for number in range(options.training):
            wrong.append(
                train(
                    Path(name) / f"training{number}",
                    kills=options.kills,
                    interruptions=2 * (number % 2),
                    epochs=options.epochs,
                    chance=random.Random(options.seed + number),
                )
            )
    print("\n".join(each or "as undisturbed" for each in wrong))
    return int(any(wrong))


if __name__ == "__main__":
    sys.exit(main())
