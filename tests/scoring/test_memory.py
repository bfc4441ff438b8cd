"""A job of a larger file needs no more memory."""

from pathlib import Path

import pytest

from tests.scoring.peaks import watch, write_table

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
        rows = write_table(table, size, words=8_000)
        found = watch(checkpoint_folder, table, tmp_path / f"out-{size}", "--workers", "1")
        assert found.rows == rows
        table.unlink()
        peaks.append(found)

    small, large = peaks
    assert small.driver > 50_000_000
    assert large.driver < small.driver + MOST_MORE
    assert small.worker > 50_000_000
    assert large.worker < small.worker + MOST_MORE
