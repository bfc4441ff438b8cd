"""Scores a large file, and watches the memory of the driver and of each worker."""

import json
import os
import random
import subprocess
import sys
import tempfile
import time
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from tests.builders import WORDS
from tests.scoring.conftest import ROOT, workers_of

_BLOCK_ROWS, _BAD_ROW, _TEXT_WORDS = 200, 7, 30


class Peaks(NamedTuple):
    """The most memory in bytes that the driver and any worker had, and the rows of the job."""

    driver: int
    worker: int
    rows: int


def write_table(path: Path, size: int, *, words: int, seed: int = 0) -> int:
    """Writes a CSV of about `size` bytes, one bad row in 200; returns the number of rows."""
    chance = random.Random(seed)

    def some(count: int) -> str:
        return " ".join(chance.choices(WORDS, k=count))

    block = "".join(
        f"{number},{'' if number == _BAD_ROW else some(_TEXT_WORDS)},{some(words)}\n"
        for number in range(_BLOCK_ROWS)
    ).encode()
    rows = 0
    with path.open("wb") as file:
        file.write(b"id,text,notes\n")
        while file.tell() < size:
            file.write(block)
            rows += _BLOCK_ROWS
    return rows


def watch(
    checkpoint: Path, inputs: Path, output: Path, *options: str, every: float = 0.05
) -> Peaks:
    """Scores a file; returns the memory peaks of driver and workers, and the rows it has read."""
    command = [sys.executable, "-m", "scoring", str(inputs), "--output", str(output)]
    with tempfile.TemporaryFile("w+", encoding="utf-8") as log:
        process = subprocess.Popen(
            [*command, "--checkpoint", str(checkpoint), "--dtype", "float32", *options],
            cwd=ROOT,
            env={**os.environ, "OMP_NUM_THREADS": "1"},
            stderr=log,
            text=True,
        )
        driver = worker = 0
        while process.poll() is None:
            driver = max(driver, _peak(process.pid))
            with suppress(OSError):
                worker = max([worker, *map(_peak, workers_of(process.pid))])
            time.sleep(every)
        if process.returncode:
            log.seek(0)
            raise RuntimeError(log.read())
    success = json.loads((output / "SUCCESS.json").read_text(encoding="utf-8"))
    if success["rows_in"] != success["rows_out"] + success["bad_rows"]:
        raise RuntimeError(f"rows are lost: {success}")
    return Peaks(driver, worker, success["rows_in"])


def _peak(process: int) -> int:
    """The largest resident memory that a process has had so far, in bytes."""
    with suppress(OSError):
        for line in Path(f"/proc/{process}/status").read_text(encoding="ascii").splitlines():
            if line.startswith("VmHWM:"):
                return int(line.split()[1]) * 1024
    return 0
