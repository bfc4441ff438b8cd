"""Scores a file of 10 GB, and watches the memory of the driver and of each worker.

    python -m tests.resilience.scoring_memory --gigabytes 10 --folder /data/tmp

The rows are long, the texts in them short, and the model is the smallest there is, so that reading
and writing take most of the time. The status is 0 if no process ever had more than
`--most-megabytes`, and if every row is in the output or among the bad rows.
"""

import argparse
import json
import os
import random
import shutil
import subprocess
import sys
import tempfile
import time
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from tests.builders import WORDS, tiny_checkpoint
from tests.scoring.conftest import ROOT, workers_of

_MEGABYTE = 1_000_000
_BLOCK_ROWS = 200
_BAD = 7
_TEXT_WORDS = 30


@dataclass(frozen=True, slots=True)
class Peaks:
    """The most memory that processes had, in bytes.

    Args:
        driver: of the command.
        worker: of any of its workers.
        rows: that the job has read.
    """

    driver: int
    worker: int
    rows: int


def write_table(path: Path, size: int, *, words: int, seed: int = 0) -> int:
    """Writes a CSV of about a size, of which one row in 200 is bad.

    Args:
        path: of the file.
        size: in bytes.
        words: of the column beside the texts.
        seed: of the words.

    Returns:
        The number of rows.
    """
    chance = random.Random(seed)

    def some(count: int) -> str:
        return " ".join(chance.choices(WORDS, k=count))

    block = "".join(
        f"{number},{'' if number == _BAD else some(_TEXT_WORDS)},{some(words)}\n"
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
    """Scores a file, and asks the system for the peaks of all processes until they end.

    Args:
        checkpoint: that scores.
        inputs: the file.
        output: a folder.
        options: of the command.
        every: seconds between two looks. A look sees the peak since the process began.

    Raises:
        RuntimeError: the command failed, or lost rows.
    """
    command = [sys.executable, "-m", "scoring", str(inputs), "--output", str(output)]
    with tempfile.TemporaryFile("w+", encoding="utf-8") as told:
        process = subprocess.Popen(
            [*command, "--checkpoint", str(checkpoint), "--dtype", "float32", *options],
            cwd=ROOT,
            env={**os.environ, "OMP_NUM_THREADS": "1"},
            stderr=told,
            text=True,
        )
        driver = worker = 0
        while process.poll() is None:
            driver = max(driver, _peak(process.pid))
            with suppress(OSError):
                worker = max([worker, *map(_peak, workers_of(process.pid))])
            time.sleep(every)
        if process.returncode:
            told.seek(0)
            raise RuntimeError(told.read())
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


def main() -> int:
    """Writes the file, scores it, and prints the peaks."""
    parser = argparse.ArgumentParser(description="Watches the memory of a large job.")
    parser.add_argument("--gigabytes", type=float, default=10.0, help="of the file")
    parser.add_argument("--words", type=int, default=8_000, help="beside a text")
    parser.add_argument("--most-megabytes", type=int, default=1_500, help="of a process")
    parser.add_argument("--folder", type=Path, help="for file and output, which are removed")
    given = parser.parse_args()
    size = round(given.gigabytes * 1e9)
    with tempfile.TemporaryDirectory(dir=given.folder) as name:
        folder = Path(name)
        # The parts have the texts too; packed they take less.
        free = shutil.disk_usage(folder).free
        if free < 2 * size:
            print(f"{free:,} bytes are free, {2 * size:,} are needed: choose a --folder")
            return 1
        rows = write_table(folder / "rows.csv", size, words=given.words)
        began = time.monotonic()
        peaks = watch(tiny_checkpoint(folder / "tiny"), folder / "rows.csv", folder / "out")
        print(
            f"{size / 1e9:.1f} GB, {rows:,} rows in {time.monotonic() - began:.0f} s: the driver "
            f"had {peaks.driver / _MEGABYTE:.0f} MB at most, a worker "
            f"{peaks.worker / _MEGABYTE:.0f} MB"
        )
        is_right = peaks.rows == rows
        is_small = max(peaks.driver, peaks.worker) <= given.most_megabytes * _MEGABYTE
        if not is_right:
            print(f"{rows - peaks.rows:,} rows are lost")
    return 0 if is_right and is_small else 1


if __name__ == "__main__":
    sys.exit(main())
