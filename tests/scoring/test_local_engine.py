"""Processes that score, and what happens when they, the driver or the disk give up."""

import json
import os
import resource
import signal
import time
from contextlib import suppress
from pathlib import Path

import pytest

from tests.hub_stand_in import files_of
from tests.scoring.conftest import (
    PARTS,
    ROWS,
    Run,
    end,
    is_alive,
    run_here,
    start,
    told_of,
    wait_for_parts,
    wait_until,
    workers_of,
)


@pytest.fixture(scope="module")
def whole(
    checkpoint_folder: Path, table: Path, tmp_path_factory: pytest.TempPathFactory
) -> dict[str, bytes]:
    """What an undisturbed run without processes writes."""
    output = tmp_path_factory.mktemp("whole") / "out"
    assert run_here(checkpoint_folder, table, "--output", output, *PARTS) == 0
    return files_of(output)


@pytest.mark.slow
def test_processes_write_what_one_process_writes_even_if_all_are_killed(
    checkpoint_folder: Path, table: Path, tmp_path: Path, whole: dict[str, bytes]
) -> None:
    output = tmp_path / "out"
    process = start(checkpoint_folder, table, output)
    wait_for_parts(output, 1, process)
    for worker in workers_of(process.pid):
        os.kill(worker, signal.SIGKILL)
    code, said = end(process)
    assert (code, files_of(output)) == (0, whole)
    success = json.loads(whole["SUCCESS.json"])
    assert success["rows_in"] == ROWS == success["rows_out"] + success["bad_rows"]
    assert success["bad_rows"] == len([place for place in range(ROWS) if place % 9 == 0])
    assert f"score: {ROWS}/{ROWS}, " in said
    assert "good" not in said


@pytest.mark.slow
def test_a_killed_driver_takes_its_workers_along_and_the_next_goes_on(
    checkpoint_folder: Path, table: Path, tmp_path: Path, whole: dict[str, bytes]
) -> None:
    output = tmp_path / "out"
    process = start(checkpoint_folder, table, output)
    # One that is about to start holds the lock of the driver for a moment.
    wait_until(lambda: len(workers_of(process.pid)) == 2)
    workers = workers_of(process.pid)
    wait_for_parts(output, 1, process)
    process.kill()
    end(process)
    wait_until(lambda: not any(map(is_alive, workers)))
    assert "SUCCESS.json" not in files_of(output)
    before = {path: path.stat().st_mtime_ns for path in output.glob("part-*")}
    code, said = end(start(checkpoint_folder, table, output))
    assert code == 0, said
    assert files_of(output) == whole
    assert {path: path.stat().st_mtime_ns for path in before} == before


@pytest.mark.slow
def test_a_signal_ends_it_in_one_line(checkpoint_folder: Path, table: Path, tmp_path: Path) -> None:
    output = tmp_path / "out"
    process = start(checkpoint_folder, table, output)
    wait_for_parts(output, 1, process)
    process.send_signal(signal.SIGTERM)
    code, said = end(process)
    assert code == 128 + signal.SIGTERM
    (last,) = told_of(said)
    assert last.startswith("headlight-score: interrupted: ")
    assert last.endswith(" parts are written; run the same command to go on")


@pytest.mark.slow
@pytest.mark.parametrize(("number", "status"), [(signal.SIGINT, 130), (signal.SIGHUP, 143)])
def test_ctrl_c_or_a_closed_terminal_while_workers_start_is_one_line(
    checkpoint_folder: Path, table: Path, tmp_path: Path, number: signal.Signals, status: int
) -> None:
    """A terminal sends the signal to the whole group of the command."""
    process = start(checkpoint_folder, table, tmp_path / "out", limit=os.setsid)
    wait_until(lambda: workers_of(process.pid) != [])
    os.killpg(process.pid, number)
    code, said = end(process)
    assert code == status
    assert len(told_of(said)) == 1
    assert "Traceback" not in said


def test_a_full_disk_is_told_and_the_same_command_goes_on(
    run: Run, table: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    output = tmp_path / "out"
    arguments = (table, "--output", output, "--part-bytes", "3000")
    assert run(*arguments, most=1) == 1
    whole = (output / "part-00000.parquet").read_bytes()
    (output / "part-00000.parquet").unlink()
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    ignored = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (len(whole) - 1, before[1]))
    try:
        assert run(*arguments, most=1) == 1
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
        signal.signal(signal.SIGXFSZ, ignored)

    fault = f"{output}/part-00000.parquet: cannot be written ({len(whole):,} bytes): File too large"
    advice = "make room, then run the same command to go on"
    assert f"{fault}: {advice}" in capsys.readouterr().err
    assert run(*arguments) == 0
    assert (output / "part-00000.parquet").read_bytes() == whole


SMALL, LARGE = 16_000_000, 160_000_000
# A second copy of what the large file has more would be 144 MB. Heaps differ from run to run.
MOST_MORE = 70_000_000


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
