"""Scores made files while processes are killed and files go bad.

Whenever the command has ended, it is started again, until the output is finished. The output must
be, byte for byte, that of an undisturbed run, and no part may be written twice.
"""

import gzip
import os
import random
import signal
import subprocess
import sys
import time
from collections import Counter
from contextlib import suppress
from pathlib import Path

from tests.builders import tiny_checkpoint
from tests.scoring.conftest import ROOT, files_of, told_of, workers_of
from tests.scoring.peaks import write_table
from tests.scoring.read_errors import prepare

Process = subprocess.Popen[str]
_PART_BYTES = 20_000
# A command that takes longer hangs.
_PATIENCE = 900
_LASTING = {"file damaged", "read error"}
_KINDS = [*sorted(_LASTING), "driver killed", "driver interrupted", "worker killed", "second job"]


class ScoringRound:
    """One job from its beginning to its totals; counts what was `done`, and notes `faults`."""

    def __init__(self, folder: Path, *, size: int, seed: int) -> None:
        self.done: Counter[str] = Counter()
        self.runs = 0
        self.faults: list[str] = []
        self._chance = random.Random(seed)
        self._variables, self._unreadable = prepare(folder)
        self._checkpoint = tiny_checkpoint(folder / "tiny")
        self._inputs = folder / "in"
        self._output = folder / "out"
        self._whole = folder / "whole"
        self._damaged: dict[Path, bytes] = {}
        self._inputs.mkdir()
        for index, name in enumerate(("a.csv", "b.csv", "c.csv.gz")):
            path = self._inputs / name
            write_table(path, size // 3, words=10, seed=10 * seed + index)
            if name.endswith(".gz"):
                path.write_bytes(gzip.compress(path.read_bytes(), mtime=0))

    def run(self, *, most: int) -> None:
        """Runs the job with this many faults, then without any, and compares its output."""
        code, log = _end(self._start(self._whole))
        if code:
            raise RuntimeError(f"the undisturbed run ended with {code}: {log}")
        waiting: list[str] = []
        while len(waiting) < most:  # all kinds come, if there are faults enough
            waiting += self._chance.sample(_KINDS, min(len(_KINDS), most - len(waiting)))
        before: dict[Path, int] = {}
        while not self._run_once(waiting):
            now = self._parts()
            again = [path.name for path in before.keys() & now.keys() if before[path] != now[path]]
            if again:
                self.faults.append(f"written twice: {', '.join(sorted(again))}")
            before = now
        if files_of(self._output) != files_of(self._whole):
            self.faults.append(f"{self._output.name} differs from an undisturbed run")

    def _start(self, output: Path, *options: str) -> Process:
        program = [sys.executable, "-m", "scoring", str(self._inputs), "--output", str(output)]
        fixed = ["--part-bytes", str(_PART_BYTES), "--dtype", "float32", "--workers", "2"]
        return subprocess.Popen(
            [*program, "--checkpoint", str(self._checkpoint), *fixed, *options],
            cwd=ROOT,
            env={**os.environ, "OMP_NUM_THREADS": "1", **self._variables},
            stderr=subprocess.PIPE,
            text=True,
        )

    def _run_once(self, waiting: list[str]) -> bool:
        """Runs a command with faults until it ends; returns whether the job is finished."""
        process = self._start(self._output)
        self.runs += 1
        met = set()
        while waiting and self._wait(process, self._chance.randrange(8)):
            kind = waiting.pop()
            met.add(kind)
            self.done[kind] += 1
            self._disturb(process, kind)
            if kind in _LASTING:
                self._wait(process, self._chance.randrange(1, 4))
                self._heal()
        code, log = _end(process)
        # Each end needs a fault that leads to it, and a message unless a signal ended it.
        expected = {0: True, -9: "driver killed" in met, 1: bool(met & _LASTING)}
        expected |= dict.fromkeys((130, 143, -2, -15), "driver interrupted" in met)
        if not expected.get(code, False) or (code > 0 and not told_of(log)):
            self.faults.append(f"status {code} after {sorted(met)}: {log}")
        if any(word in log for word in ("superb", "boring")):
            self.faults.append("a command logs words of a text")
        return code == 0

    def _wait(self, process: Process, parts: int) -> bool:
        """Waits for further parts and a moment; returns whether the command still runs."""
        wanted = len(self._parts()) + parts
        until = time.monotonic() + _PATIENCE
        while len(self._parts()) < wanted and process.poll() is None:
            if time.monotonic() > until:
                self.faults.append("no part is written any more")
                process.kill()
            time.sleep(0.01)
        time.sleep(self._chance.uniform(0, 0.2))
        return process.poll() is None

    def _parts(self) -> dict[Path, int]:
        return {path: path.stat().st_mtime_ns for path in self._output.glob("part-*")}

    def _disturb(self, process: Process, kind: str) -> None:
        file = self._chance.choice(sorted(self._inputs.iterdir()))
        size = file.stat().st_size
        place = self._chance.randrange(size)
        if kind == "driver killed":
            process.kill()
        elif kind == "driver interrupted":
            process.send_signal(self._chance.choice((signal.SIGINT, signal.SIGTERM)))
        elif kind == "second job":  # it must find the first one at work
            process.send_signal(signal.SIGSTOP)
            code, log = _end(self._start(self._output, "--overwrite"))
            process.send_signal(signal.SIGCONT)
            if code != 1 or "is at work on it" not in log:
                self.faults.append(f"a second job beside the first ended with {code}: {log}")
        elif kind == "worker killed":
            if workers := workers_of(process.pid):
                with suppress(ProcessLookupError):
                    os.kill(self._chance.choice(workers), signal.SIGKILL)
        elif kind == "read error":
            new = self._unreadable.with_suffix(".new")
            new.write_text(f"{file.name} {place} {size}\n", encoding="utf-8")
            new.replace(self._unreadable)
        else:  # bits of a tenth of the file are turned
            content = self._damaged[file] = file.read_bytes()
            end = place + size // 10
            _write(file, content[:place] + bytes(byte ^ 1 for byte in content[place:end]))

    def _heal(self) -> None:
        """Mends files, and lets reads work again."""
        self._unreadable.unlink(missing_ok=True)
        for path, content in self._damaged.items():
            _write(path, content)
        self._damaged.clear()


def _write(path: Path, content: bytes) -> None:
    """Replaces the beginning of a file, which never is short or has another time."""
    modified = path.stat().st_mtime_ns
    with path.open("r+b") as file:
        file.write(content)
    os.utime(path, ns=(modified, modified))


def _end(process: Process) -> tuple[int, str]:
    try:
        _, log = process.communicate(timeout=_PATIENCE)
    except subprocess.TimeoutExpired:
        process.kill()
        _, log = process.communicate()
    return process.returncode, log
