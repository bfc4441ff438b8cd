"""Files of an S3 server on this machine, and of the disk."""

import errno
import io
import json
import os
from collections.abc import Iterator
from pathlib import Path

import fsspec
import pytest
from pyarrow import fs, parquet

from scoring import stores
from tests.hub_stand_in import files_of
from tests.scoring.conftest import PARTS, Run, s3_bucket, told_of


@pytest.fixture
def bucket() -> Iterator[fs.S3FileSystem]:
    with s3_bucket() as bucket:
        yield bucket


def content_of(bucket: fs.S3FileSystem, folder: str) -> dict[str, bytes]:
    found = {}
    for info in bucket.get_file_info(fs.FileSelector(folder, recursive=True)):
        if info.is_file:
            with bucket.open_input_stream(info.path) as file:
                found[info.path.removeprefix(f"{folder}/")] = file.read()
    return found


def test_a_job_from_bucket_to_bucket_is_that_of_the_disk(
    bucket: fs.S3FileSystem, run: Run, table: Path, tmp_path: Path
) -> None:
    for name in ("in/a.csv", "in/b.csv", "in/_left/out.csv"):
        with bucket.open_output_stream(f"box/{name}") as file:
            file.write(table.read_bytes())
    folder = tmp_path / "in"
    folder.mkdir()
    for name in ("a.csv", "b.csv"):
        (folder / name).write_bytes(table.read_bytes())
    parts = ("--part-bytes", "9000", "--dtype", "float32")
    assert run(folder, "--output", tmp_path / "disk", *parts) == 0
    assert run("s3://box/in", "--output", "s3://box/out", *parts, most=1) == 1
    assert "SUCCESS.json" not in content_of(bucket, "box/out")
    assert run("s3://box/in", "--output", "s3://box/out", *parts) == 0

    found, disk = content_of(bucket, "box/out"), files_of(tmp_path / "disk")
    del found["manifest.json"], disk["manifest.json"]
    assert found.pop("bad-rows.jsonl").replace(b"s3://box/in", str(folder).encode()) == disk.pop(
        "bad-rows.jsonl"
    )
    assert list(map(table_of, sorted(found.items()))) == list(map(table_of, sorted(disk.items())))


def table_of(file: tuple[str, bytes]) -> tuple[str, object]:
    """A file, of a part its rows: its metadata has the id of the job, which knows the paths."""
    name, content = file
    is_part = name.startswith("part-")
    return name, parquet.read_table(io.BytesIO(content)) if is_part else content


def test_a_store_that_only_fsspec_knows_is_read_and_written(run: Run) -> None:
    memory = fsspec.filesystem("memory")
    for name in ("a.csv", "b.csv"):
        memory.pipe(f"/in/{name}", b"text\ngood\nbad\n")
    output = ("--output", "memory://out", "--part-bytes", "5", "--format", "input")
    assert run("memory://in/*.csv", *output, most=1) == 1
    assert run("memory://in/*.csv", *output) == 0
    names = ["SUCCESS.json", "bad-rows.jsonl", "manifest.json"]
    parts = [f"part-{number:05d}.csv" for number in range(4)]
    assert memory.find("/out") == [f"/out/{name}" for name in [*names, *parts]]
    manifest = json.loads(memory.cat("/out/manifest.json"))
    sources = [source["path"] for source in manifest["sources"]]
    assert sources == ["memory://in/a.csv", "memory://in/b.csv"]


@pytest.mark.parametrize("place", ["other/in.csv", "other/out"])
def test_a_bucket_that_is_not_there_is_named(
    bucket: fs.S3FileSystem, run: Run, table: Path, place: str, capfd: pytest.CaptureFixture[str]
) -> None:
    assert bucket
    url = f"s3://{place}"
    inputs, output = (url, table.parent / "out") if place.endswith("csv") else (table, url)
    assert run(inputs, "--output", output) == 1
    assert url in capfd.readouterr().err


def test_a_read_error_leaves_other_files_alone(
    run: Run,
    table: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    folder, output = tmp_path / "in", tmp_path / "out"
    folder.mkdir()
    for name in ("a.csv", "b.csv"):
        (folder / name).write_bytes(table.read_bytes()[:1_000])
    assert run(folder, "--output", tmp_path / "whole", *PARTS) == 0
    assert run(folder, "--output", output, *PARTS, most=1) == 1

    class Failing(io.BufferedReader):
        def read(self, size: int | None = -1) -> bytes:
            if str(self.name).endswith("a.csv") and self.tell() >= 500:
                raise OSError(errno.EIO, os.strerror(errno.EIO))
            return super().read(size)

    with monkeypatch.context() as patch:
        patch.setattr(stores.LocalStore, "open", lambda _, path: Failing(io.FileIO(path)))
        assert run(folder, "--output", output, *PARTS) == 1

    shown = told_of(capsys.readouterr().err)
    assert shown[-2] == (
        f"headlight-score: {folder / 'a.csv'}: cannot be read: {os.strerror(errno.EIO)}"
    )
    units = json.loads((output / "manifest.json").read_text())["units"]
    others = [unit["number"] for unit in units if unit["source"] == 1]
    assert all((output / f"part-{number:05d}.parquet").exists() for number in others)
    assert run(folder, "--output", output, *PARTS) == 0
    assert files_of(output) == files_of(tmp_path / "whole")
