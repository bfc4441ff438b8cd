"""A job of a larger file needs no more memory."""

import time
from contextlib import suppress
from pathlib import Path

import pytest

from tests.scoring.conftest import end, start, workers_of

SMALL, LARGE = 8_000_000, 80_000_000
# A second copy of what the large file has more would be 72 MB. Heaps differ from run to run.
MOST_MORE = 40_000_000


@pytest.mark.slow
def test_a_file_of_ten_times_the_size_needs_the_same_memory(
    checkpoint_folder: Path, tmp_path: Path
) -> None:
    peaks = []
    for size in (SMALL, LARGE):
        table = tmp_path / f"{size}.csv"
        block = f"good film,{'bad plot ' * 4_000}\n".encode() * 200
        rows = 200 * (size // len(block))
        with table.open("wb") as file:
            file.write(b"text,notes\n")
            file.writelines(block for _ in range(rows // 200))
        options = ("--part-bytes", str(8 * 1024 * 1024), "--workers", "1")
        process = start(checkpoint_folder, table, tmp_path / f"out-{size}", *options)
        driver = worker = 0
        while process.poll() is None:
            driver = max(driver, peak(process.pid))
            with suppress(OSError):
                worker = max([worker, *map(peak, workers_of(process.pid))])
            time.sleep(0.05)
        code, said = end(process)
        assert (code, f"of {rows:,} rows are scored" in said) == (0, True)
        table.unlink()
        peaks.append((driver, worker))

    for small, large in zip(*peaks, strict=True):
        assert small > 50_000_000
        assert large < small + MOST_MORE


def peak(process: int) -> int:
    """The largest resident memory that a process has had so far, in bytes."""
    with suppress(OSError):
        for line in Path(f"/proc/{process}/status").read_text(encoding="ascii").splitlines():
            if line.startswith("VmHWM:"):
                return int(line.split()[1]) * 1024
    return 0
