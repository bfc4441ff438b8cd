"""Several jobs and one folder: whose parts are there, and how the folder is spelled."""

import errno
import os
from contextlib import closing
from pathlib import Path

import pytest
from pyarrow import parquet

from scoring.folder import Output
from scoring.manifest import Manifest
from scoring.parts import Job, PartScorer, UnitFailure
from scoring.writing import JOB
from tests.builders import tiny_checkpoint
from tests.hub_stand_in import files_of
from tests.scoring.conftest import Run, refusal, rows_of

BUSY = "another job is at work on it: wait for it, or end it"
OTHER = "another job has begun there with --overwrite: choose another --output"


@pytest.fixture
def table(tmp_path: Path) -> Path:
    path = tmp_path / "rows.tsv"
    path.write_text("text\n" + "good\nbad\nfilm\n" * 2, encoding="utf-8")
    return path


@pytest.fixture(scope="module")
def other(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tiny_checkpoint(tmp_path_factory.mktemp("other"), seed=1)


def manifest_of(output: Path) -> Manifest:
    manifest = Output(str(output)).manifest()
    assert manifest is not None
    return manifest


@pytest.mark.parametrize(
    ("alive", "shard"), [((1, 1), "1/1"), ((1, 1), "1/3"), ((2, 3), "1/3"), ((2, 3), "1/4")]
)
def test_overwrite_leaves_a_job_at_work_alone(
    run: Run,
    table: Path,
    tmp_path: Path,
    other: Path,
    alive: tuple[int, int],
    shard: str,
    capsys: pytest.CaptureFixture[str],
) -> None:
    output = tmp_path / "out"
    assert run(table, "--output", output, "--part-bytes", "1", most=2) == 1
    with Output(str(output)).locked(alive):
        before = files_of(output)
        arguments = ("--overwrite", "--shard", shard, "--checkpoint", other)
        for options in (arguments, ("--part-bytes", "1")):
            assert run(table, "--output", output, *options) == 1
            assert refusal(capsys) == f"{output}: {BUSY}"
        assert files_of(output) == before
    assert run(table, "--output", output, *arguments) == 0


def test_a_shard_that_overwrites_keeps_the_parts_of_the_others(
    run: Run, table: Path, tmp_path: Path, other: Path
) -> None:
    output = tmp_path / "out"
    arguments = (table, "--part-bytes", "1", "--output")
    assert run(*arguments, tmp_path / "whole") == 0
    assert run(*arguments, output, "--checkpoint", other) == 0
    with Output(str(output)).locked((2, 3)):  # it plans as well
        for name in ("SUCCESS.json", "manifest.json"):
            (output / name).unlink()
        assert run(*arguments, output, "--overwrite", "--shard", "1/3") == 0
    assert run(*arguments, output, "--overwrite", "--shard", "2/3") == 0
    (output / ".lock-1-of-3").touch()  # of a job that was killed
    before = {path: path.stat().st_mtime_ns for path in output.glob("part-*")}
    assert run(*arguments, output, "--overwrite", "--shard", "3/3") == 0

    assert files_of(output) == files_of(tmp_path / "whole")  # and no locks
    own = [path for path in before if path.stat().st_mtime_ns != before[path]]
    assert [path.name for path in sorted(own)] == ["part-00002.parquet", "part-00005.parquet"]


def test_overwrite_removes_nothing_before_the_plan_is_made(
    run: Run, table: Path, tmp_path: Path
) -> None:
    output = tmp_path / "out"
    assert run(table, "--output", output) == 0
    before = files_of(output)
    assert run(table, "--output", output, "--overwrite", "--text-column", "none") == 1
    assert files_of(output) == before


def test_a_worker_of_an_earlier_job_writes_nothing_more(
    run: Run, table: Path, tmp_path: Path, other: Path, checkpoint_folder: Path
) -> None:
    output = tmp_path / "out"
    arguments = (table, "--output", output, "--part-bytes", "1", "--dtype", "float32")
    assert run(*arguments, most=1) == 1
    early = manifest_of(output)
    job = Job(early, str(output), str(checkpoint_folder), "cpu", threads=1)
    with closing(PartScorer(job)) as scorer:
        record = (output / ".records" / "00000.json").read_bytes()
        assert run(*arguments, "--overwrite", "--checkpoint", other, most=1) == 1
        before = files_of(output)

        assert scorer.score(1) == UnitFailure(1, f"{output}: {OTHER}", stops=True)
        assert files_of(output) == before
    # A record that it wrote a moment before is not taken for one of the new job.
    (output / ".records" / "00000.json").write_bytes(record)
    assert Output(str(output)).done(manifest_of(output)) == set()
    assert run(*arguments, "--checkpoint", other) == 0
    metadata = [parquet.read_schema(path).metadata[JOB.encode()] for path in output.glob("part-*")]
    assert set(metadata) == {manifest_of(output).job.encode()}
    assert early.job != manifest_of(output).job


def test_a_part_of_another_job_is_found_at_the_end(
    run: Run, table: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    output = tmp_path / "out"
    assert run(table, "--output", output, "--part-bytes", "1", most=2) == 1
    part = output / "part-00001.parquet"
    part.write_bytes(part.read_bytes()[::-1])
    assert run(table, "--output", output, "--part-bytes", "1") == 1
    assert refusal(capsys) == (
        f"{part}: is not what this job has written: remove it, and run the same command again"
    )
    part.unlink()
    assert run(table, "--output", output, "--part-bytes", "1") == 0


@pytest.mark.parametrize("output", [".//out//", "in/../out", "."])
def test_an_output_may_be_spelled_in_any_way(
    run: Run, table: Path, tmp_path: Path, output: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "work" / "in").mkdir(parents=True)
    monkeypatch.chdir(tmp_path / "work")
    (tmp_path / "work" / "in").rmdir() if output == "." else None
    for _ in range(2):
        assert run(table, "--output", output, "--part-bytes", "1", most=2) == 1
    assert run(table, "--output", output, "--part-bytes", "1") == 0
    assert (Path(output) / "SUCCESS.json").exists()
    assert len(rows_of(Path(output))) == 6


def test_a_link_to_a_file_of_the_input_is_read_once(
    run: Run, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "in"
    folder.mkdir()
    for place, name in ((folder, "b.csv"), (tmp_path, "elsewhere.csv")):
        (place / name).write_text(f"text\n{name}\n", encoding="utf-8")
    (folder / "latest.csv").symlink_to("b.csv")
    (folder / "a.csv").symlink_to("b.csv")
    (folder / "c.csv").symlink_to(tmp_path / "elsewhere.csv")
    for inputs in (folder, folder / "*.csv"):
        assert run(inputs, "--output", tmp_path / "out", "--overwrite") == 0
        links = f"{folder / 'a.csv'}, {folder / 'latest.csv'}"
        said = capsys.readouterr().err
        assert f"skipped 2 links to files that are read anyway: {links}\n" in said
        assert [row["text"] for row in rows_of(tmp_path / "out")] == ["b.csv", "elsewhere.csv"]


def test_the_name_of_a_file_must_be_utf8(
    run: Run, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    path = Path(os.fsdecode(bytes(tmp_path) + b"/gr\xf6\xdfe.csv"))
    path.write_text("text\ngood\n", encoding="utf-8")
    assert run(path, "--output", tmp_path / "out") == 1
    assert refusal(capfd).endswith("e.csv: the name is not UTF-8: rename the file")


def test_a_folder_that_cannot_be_read_is_told(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "in" / "closed").mkdir(parents=True)
    (tmp_path / "in" / "a.csv").write_text("text\ngood\n", encoding="utf-8")
    scan = os.scandir

    def refuse(path: str) -> object:
        if path.endswith("closed"):  # also for root, who may read everything
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), path)
        return scan(path)

    monkeypatch.setattr(os, "scandir", refuse)
    assert run(tmp_path / "in", "--output", tmp_path / "out") == 1
    assert refusal(capsys) == f"{tmp_path / 'in'}: cannot be read: Permission denied"
