"""Processes that score, and what happens when they, the driver or the disk give up."""

import errno
import gzip
import json
import os
import resource
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest
from pyarrow import csv, parquet

from scoring.engines.base import Backlog, Job, UnitFailure
from scoring.engines.local import LocalEngine, _Supervisor, _Work
from scoring.errors import EngineError
from tests.scoring.conftest import (
    PARTS,
    PATIENCE,
    ROOT,
    ROWS,
    Run,
    end,
    files_of,
    is_alive,
    run_here,
    start,
    told_of,
    wait_for_parts,
    workers_of,
)
from tests.scoring.read_errors import prepare


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
    wait_for_parts(output, 1, process)
    workers = workers_of(process.pid)
    process.kill()
    end(process)
    until = time.monotonic() + PATIENCE
    while any(map(is_alive, workers)):
        assert time.monotonic() < until
        time.sleep(0.01)

    assert workers
    assert "SUCCESS.json" not in files_of(output)
    before = {path: path.stat().st_mtime_ns for path in output.glob("part-*")}
    assert end(start(checkpoint_folder, table, output))[0] == 0
    assert files_of(output) == whole
    assert {path: path.stat().st_mtime_ns for path in before} == before


@pytest.mark.slow
def test_a_signal_ends_it_and_the_same_command_goes_on(
    checkpoint_folder: Path, table: Path, tmp_path: Path, whole: dict[str, bytes]
) -> None:
    output = tmp_path / "out"
    process = start(checkpoint_folder, table, output)
    wait_for_parts(output, 1, process)
    process.send_signal(signal.SIGTERM)
    code, said = end(process)

    assert code == 128 + signal.SIGTERM
    last = said.splitlines()[-1]
    assert last.startswith("headlight-score: interrupted: ")
    assert last.endswith(" parts are written; run the same command to go on")
    assert end(start(checkpoint_folder, table, output))[0] == 0
    assert files_of(output) == whole


@pytest.mark.slow
def test_ctrl_c_while_workers_start_is_one_line(
    checkpoint_folder: Path, table: Path, tmp_path: Path
) -> None:
    """A terminal sends the signal to the whole group of the command."""
    process = start(checkpoint_folder, table, tmp_path / "out", limit=os.setsid)
    until = time.monotonic() + PATIENCE
    while not workers_of(process.pid):
        assert time.monotonic() < until
        time.sleep(0.001)
    os.killpg(process.pid, signal.SIGINT)
    code, said = end(process)

    assert code == 130
    assert len(told_of(said)) == 1
    assert "Traceback" not in said


@pytest.mark.slow
def test_a_full_disk_is_told_and_the_same_command_goes_on(
    checkpoint_folder: Path, table: Path, tmp_path: Path, whole: dict[str, bytes]
) -> None:
    output = tmp_path / "out"
    most = max(len(content) for name, content in whole.items() if name.startswith("part-"))

    def limit() -> None:
        # No file may grow as large as the largest part; the manifest is there already.
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (most - 1, most - 1))

    planned = start(checkpoint_folder, table, output)
    wait_for_parts(output, 1, planned)
    planned.kill()
    end(planned)
    code, said = end(start(checkpoint_folder, table, output, limit=limit))

    assert code == 1
    shown = told_of(said)
    assert len(shown) == 2
    assert (
        f"cannot be written ({most:,} bytes): File too large: make room, then run the same "
        in (shown[0])
    )
    assert shown[1].endswith("fix this, then run the same command to go on")
    assert not list(output.glob(".part-*"))
    assert end(start(checkpoint_folder, table, output))[0] == 0
    assert files_of(output) == whole


@pytest.mark.slow
@pytest.mark.parametrize("form", ["csv.gz", "parquet"])
def test_a_read_error_in_the_midst_leaves_other_files_alone(
    run: Run,
    checkpoint_folder: Path,
    table: Path,
    tmp_path: Path,
    form: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    folder = tmp_path / "in"
    folder.mkdir()
    for name in ("a", "b"):
        path = folder / f"{name}.{form}"
        if form == "parquet":
            parquet.write_table(csv.read_csv(table), path, row_group_size=20)
        else:
            path.write_bytes(gzip.compress(table.read_bytes()[:4_000], mtime=0))
    assert run(folder, "--output", tmp_path / "whole", *PARTS) == 0
    output = tmp_path / "out"
    assert run(folder, "--output", output, *PARTS, most=1) == 1
    variables, unreadable = prepare(tmp_path)
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    half = (folder / f"a.{form}").stat().st_size // 2
    # A packed file is read in one piece, the end of Parquet before all else.
    first, end_of = (half // 2, half) if form == "parquet" else (0, half)
    unreadable.write_text(f"a.{form} {first} {end_of}\n", encoding="utf-8")

    code, said = end(start(checkpoint_folder, folder, output))

    assert code == 1
    shown = told_of(said)
    assert shown[0] == (
        f"headlight-score: {folder / f'a.{form}'}: cannot be read: {os.strerror(errno.EIO)}"
    )
    units = json.loads((output / "manifest.json").read_text())["units"]
    others = [unit["number"] for unit in units if unit["source"] == 1]
    assert all((output / f"part-{number:05d}.parquet").exists() for number in others)
    unreadable.unlink()
    assert end(start(checkpoint_folder, folder, output))[0] == 0
    assert files_of(output) == files_of(tmp_path / "whole")


@pytest.mark.slow
def test_a_part_that_ends_three_workers_is_told_and_the_others_are_written(
    checkpoint_folder: Path, table: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A module that Python imports first ends each worker that reads the third part."""
    (tmp_path / "sitecustomize.py").write_text(
        "import os, sys\n"
        "if 'scoring.engines.local_worker' in ' '.join(sys.orig_argv):\n"
        "    import scoring.reading\n"
        "    read = scoring.reading.UnitReader.read\n"
        "    def deadly(self, unit):\n"
        "        if unit.number == 2:\n"
        "            os.kill(os.getpid(), 9)\n"
        "        return read(self, unit)\n"
        "    scoring.reading.UnitReader.read = deadly\n",
        encoding="utf-8",
    )
    monkeypatch.setenv("PYTHONPATH", f"{tmp_path}{os.pathsep}{ROOT}")
    output = tmp_path / "out"

    code, said = end(start(checkpoint_folder, table, output))

    assert code == 1
    shown = told_of(said)
    assert shown[0] == ("headlight-score: part 2: 3 workers were ended by it, the last by signal 9")
    parts = json.loads((output / "manifest.json").read_text())["units"]
    assert len(list(output.glob("part-*"))) == len(parts) - 1


@pytest.mark.slow
def test_a_worker_that_cannot_load_the_model_is_one_message(
    checkpoint_folder: Path, table: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "sitecustomize.py").write_text(
        "import sys\n"
        "if 'scoring.engines.local_worker' in ' '.join(sys.orig_argv):\n"
        "    import scoring.scorer\n"
        "    from scoring.errors import OptionError\n"
        "    def refuse(*_):\n"
        "        raise OptionError('--device: it is gone')\n"
        "    scoring.scorer.choose = refuse\n",
        encoding="utf-8",
    )
    monkeypatch.setenv("PYTHONPATH", f"{tmp_path}{os.pathsep}{ROOT}")

    code, said = end(start(checkpoint_folder, table, tmp_path / "out"))

    assert (code, told_of(said)) == (1, ["headlight-score: --device: it is gone"])


def test_work_that_is_closed_lets_nobody_wait() -> None:
    """Also if the last unit is noted as settled after the driver has left."""
    work = _Work([0], 1)
    assert work.take(wait=True) == 0
    work.close()
    work.settle(UnitFailure(0, "late"))
    found: list[int | None] = []
    thread = threading.Thread(target=lambda: found.append(work.take(wait=True)), daemon=True)
    thread.start()
    thread.join(PATIENCE)

    assert found == [None]


@pytest.mark.parametrize("workers", [1, 2])
def test_workers_that_end_before_they_have_loaded_the_model_end_the_job(
    workers: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    def start_and_wait(_: object) -> subprocess.Popen[str]:
        process = subprocess.Popen(
            [sys.executable, "-S", "-c", ""],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        process.wait()
        return process

    monkeypatch.setattr(_Supervisor, "_start", start_and_wait)
    job = Job(manifest="", output="", checkpoint="", device="cpu", dtype="float32", threads=1)
    found: list[object] = []

    def run() -> None:
        try:
            found.extend(LocalEngine(workers=workers).run(job, [7, 8]))
        except EngineError as error:
            found.append(str(error))

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    thread.join(PATIENCE)

    assert found == [
        f"{3 * workers} workers in a row ended before they had loaded the model, the last with "
        "status 0: free some memory, or try fewer --workers"
    ]


def test_ends_while_models_load_are_counted_in_a_row() -> None:
    backlog = Backlog([1, 2], 1)
    for _ in range(2):
        for _ in range(2):
            assert backlog.put_back([], "actors", "by ActorDiedError", loaded=False) is None
        backlog.note_progress()
    assert backlog.put_back([3], "actors", "", loaded=False) is None
    assert backlog.take() == 3
    assert backlog.put_back([3], "actors", "", loaded=False) is None
    with pytest.raises(EngineError, match="3 actors in a row ended before they had loaded the mod"):
        backlog.put_back([], "actors", "by ActorDiedError", loaded=False)
