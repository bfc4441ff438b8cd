"""Scores made files while processes are killed, the disk fills up, and files go bad.

Whenever the command has ended, it is started again, until the output is finished. The output must
be, byte for byte, that of an undisturbed run, and no part may be written twice.
"""

import os
import random
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from tests.builders import tiny_checkpoint
from tests.resilience.inputs import make_inputs
from tests.resilience.small_disk import SmallDisk
from tests.scoring.conftest import ROOT, files_of, told_of, workers_of
from tests.scoring.read_errors import prepare

Process = subprocess.Popen[str]
_PART_BYTES = 20_000
# A command that takes longer hangs.
_PATIENCE = 900
_LASTING = {"disk full", "file damaged", "read error"}


@dataclass(slots=True)
class Outcome:
    """How often each fault was done, how many commands it took, and what was wrong."""

    done: Counter[str] = field(default_factory=Counter)
    runs: int = 0
    faults: list[str] = field(default_factory=list)


class ScoringRound:
    """One job from its beginning to its totals.

    Args:
        folder: the folder for inputs, model and whole output; it exists.
        disk: holds the output.
        form: the form of the inputs, of `inputs.FORMS`.
        rows: the number of rows.
        seed: decides inputs and faults.
    """

    def __init__(self, folder: Path, disk: SmallDisk, form: str, *, rows: int, seed: int) -> None:
        self.outcome = Outcome()
        self._chance = random.Random(seed)
        self._disk = disk
        self._variables, self._unreadable = prepare(folder)
        self._checkpoint = tiny_checkpoint(folder / "tiny")
        self._inputs = folder / "in"
        self._output = disk.folder / f"out-{form}-{seed}"
        self._whole = folder / "whole"
        self._damaged: dict[Path, tuple[bytes, int]] = {}
        make_inputs(self._inputs, form, rows=rows, seed=seed)

    def run(self, *, most: int) -> Outcome:
        """Runs the job with faults, and compares its output.

        Args:
            most: the number of faults; after them the job is left alone.
        """
        code, log = _end(self._start(self._whole))
        if code:
            raise RuntimeError(f"the undisturbed run ended with {code}: {log}")
        kinds = self._kinds()
        waiting: list[str] = []
        while len(waiting) < most:  # all kinds come, if there are faults enough
            waiting += self._chance.sample(list(kinds), min(len(kinds), most - len(waiting)))
        before: dict[Path, int] = {}
        while not self._run_once(waiting, kinds):
            now = self._parts()
            again = [path.name for path in before.keys() & now.keys() if before[path] != now[path]]
            if again:
                self.outcome.faults.append(f"written twice: {', '.join(sorted(again))}")
            before = now
        if files_of(self._output) != files_of(self._whole):
            self.outcome.faults.append(f"{self._output.name} differs from an undisturbed run")
        return self.outcome

    def _start(self, output: Path) -> Process:
        program = [sys.executable, "-m", "scoring", str(self._inputs), "--output", str(output)]
        fixed = ["--part-bytes", str(_PART_BYTES), "--dtype", "float32", "--workers", "2"]
        return subprocess.Popen(
            [*program, "--checkpoint", str(self._checkpoint), *fixed],
            cwd=ROOT,
            env={**os.environ, "OMP_NUM_THREADS": "1", **self._variables},
            stderr=subprocess.PIPE,
            text=True,
        )

    def _kinds(self) -> Mapping[str, Callable[[Process], None]]:
        kinds: dict[str, Callable[[Process], None]] = {
            "driver killed": lambda process: process.kill(),
            "driver interrupted": lambda process: process.send_signal(
                self._chance.choice((signal.SIGINT, signal.SIGTERM))
            ),
            "worker killed": self._kill_worker,
            "file damaged": lambda _: self._damage(),
            "read error": lambda _: self._break_reads(),
        }
        if self._disk.is_small:
            kinds["disk full"] = lambda _: self._disk.fill()
        return kinds

    def _run_once(self, waiting: list[str], kinds: Mapping[str, Callable[[Process], None]]) -> bool:
        """Runs a command with faults until it ends; returns whether the job is finished."""
        process = self._start(self._output)
        self.outcome.runs += 1
        met = set()
        while waiting and self._wait(process, self._chance.randrange(8)):
            kind = waiting.pop()
            met.add(kind)
            self.outcome.done[kind] += 1
            kinds[kind](process)
            if kind in _LASTING:
                self._wait(process, self._chance.randrange(1, 4))
                self._heal()
        code, log = _end(process)
        self._judge(code, told_of(log), met)
        if any(word in log for word in ("superb", "boring")):
            self.outcome.faults.append("a command logs words of a text")
        return code == 0

    def _wait(self, process: Process, parts: int) -> bool:
        """Waits for further parts and a moment; returns whether the command still runs."""
        wanted = len(self._parts()) + parts
        until = time.monotonic() + _PATIENCE
        while len(self._parts()) < wanted and process.poll() is None:
            if time.monotonic() > until:
                self.outcome.faults.append("no part is written any more")
                process.kill()
            time.sleep(0.01)
        time.sleep(self._chance.uniform(0, 0.2))
        return process.poll() is None

    def _parts(self) -> dict[Path, int]:
        return {path: path.stat().st_mtime_ns for path in self._output.glob("part-*")}

    def _judge(self, code: int, lines: Sequence[str], met: set[str]) -> None:
        """Notes an end that none of the faults leads to, or that has no message."""
        right = {0: True, -9: "driver killed" in met, 1: bool(met & _LASTING)}
        right |= dict.fromkeys((130, 143, -2, -15), "driver interrupted" in met)
        if not right.get(code, False) or not (lines or code <= 0):
            self.outcome.faults.append(f"status {code} after {sorted(met)}: {list(lines)}")

    def _heal(self) -> None:
        """Makes room, mends files, and lets reads work again."""
        self._disk.free()
        self._unreadable.unlink(missing_ok=True)
        for path, (content, modified) in self._damaged.items():
            _write(path, content, modified)
        self._damaged.clear()

    def _kill_worker(self, process: Process) -> None:
        if workers := workers_of(process.pid):
            with suppress(ProcessLookupError):
                os.kill(self._chance.choice(workers), signal.SIGKILL)

    def _damage(self) -> None:
        """Turns bits of a tenth of a file, at the same size and time."""
        path = self._chance.choice(sorted(self._inputs.iterdir()))
        content = path.read_bytes()
        begin = self._chance.randrange(len(content))
        end = begin + len(content) // 10
        broken = content[:begin] + bytes(byte ^ 1 for byte in content[begin:end]) + content[end:]
        modified = path.stat().st_mtime_ns
        self._damaged.setdefault(path, (content, modified))
        _write(path, broken, modified)

    def _break_reads(self) -> None:
        path = self._chance.choice(sorted(self._inputs.iterdir()))
        size = path.stat().st_size
        new = self._unreadable.with_suffix(".new")
        new.write_text(f"{path.name} {self._chance.randrange(size)} {size}\n", encoding="utf-8")
        new.replace(self._unreadable)


def _write(path: Path, content: bytes, modified: int) -> None:
    """Writes in place, without a moment at which the file is short or has another time."""
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
