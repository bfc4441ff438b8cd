"""Folders as Spark, Hive, Snowflake and pandas write them: read, or what is left out is named."""

import gzip
import os
from pathlib import Path
from typing import Any

import pyarrow
import pytest
from pyarrow import parquet

from tests.hub_stand_in import files_of
from tests.scoring.conftest import Run, refusal, rows_of

GOOD, BAD = "text\ngood\n", "text,stars\nbad,3\n"
LATER = {"text": pyarrow.array(["bad"]), "day": pyarrow.array([1], pyarrow.date32())}
Kept = list[tuple[Any, ...]]
ONE: Kept = [("good",)]


def fill(folder: Path, files: dict[str, Any]) -> Path:
    """Writes files of text, bytes or columns of Parquet, and links to a `Path`."""
    for name, content in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        if isinstance(content, Path):
            path.symlink_to(content)
        elif isinstance(content, dict):
            parquet.write_table(pyarrow.table(content), path)
        else:
            path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return folder


READ: list[tuple[dict[str, Any], Kept, str]] = [
    (
        {"0.csv": "", "1.csv": GOOD, "2.csv.gz": gzip.compress(b"\n"), "3.csv": "text\n"},
        ONE,
        "3 files have no rows: {in}/0.csv, {in}/2.csv.gz, {in}/3.csv",
    ),
    (
        {"0.parquet": {}, "1.parquet": {"text": ["good"]}, "2.parquet": b"", "3.csv.zip": b""},
        ONE,
        "3 files have no rows: {in}/0.parquet, {in}/2.parquet, {in}/3.csv.zip",
    ),
    (
        {"a.csv": GOOD, "b.csv": Path("nothing"), "c.csv": Path("c.csv")},
        ONE,
        "skipped 2 links that lead nowhere: {in}/b.csv, {in}/c.csv",
    ),
    ({"a.csv": GOOD, "latest": Path("/usr")}, ONE, "skipped 1 links to folders: {in}/latest"),
    (
        {"a.csv": GOOD, "_temporary/0/b.csv": GOOD, "_SUCCESS": "", ".a.csv.crc": ""},
        ONE,
        "skipped 1 hidden files: {in}/_temporary/0/b.csv",
    ),
    (
        {"a.parquet": {"text": ["good"]}, "_delta_log/00.json": "{}"},
        ONE,
        "skipped 1 files of a Delta table's log, so rows that it has removed are scored too: ",
    ),
    (
        {"a.csv": GOOD, "000000_0": "good\x01\\N\n"},
        ONE,
        "skipped 1 files that have another suffix: {in}/000000_0",
    ),
    (
        {"a.csv": GOOD, "b.csv": BAD},
        [("good", None), ("bad", "3")],
        "1 columns are empty where files lack them: 'stars'",
    ),
    ({"a.csv": BAD, "b.csv": GOOD}, [("bad", "3"), ("good", None)], "1 columns are empty where "),
    (
        {"a.parquet": {"text": ["good"]}, "b.parquet": LATER},
        [("good", None), ("bad", LATER["day"][0].as_py())],
        "1 columns are empty where files lack them: 'day'",
    ),
    (
        {"d=__HIVE_DEFAULT_PARTITION__/a.csv": GOOD, "d=x%2Fy/a.csv": GOOD, "_d=z/b.csv": GOOD},
        [("good", "z", None), ("good", None, None), ("good", None, "x/y")],
        "2 columns are empty where files lack them: '_d', 'd'",
    ),
    ({"d=x/a.json": '{"text": "good"}\n'}, [("good", "x")], "planning 1 files"),
]
REFUSED: list[tuple[dict[str, Any], str]] = [
    ({"a.csv": ""}, "a.csv: has no columns: it must hold a header, or objects of JSON"),
    ({"a.csv": GOOD, "b.json": "{}"}, "b.json: is jsonl, {in}/a.csv is csv: score them apart"),
    (
        {"a.csv": BAD, "b.csv": "stars\n1\n"},
        "b.csv: no column is named 'text' among 'stars', unlike in {in}/a.csv: score them apart",
    ),
    (
        {"a.parquet": {"text": ["good"], "n": [1]}, "b.parquet": {"text": ["bad"], "n": ["x"]}},
        "b.parquet: the column 'n' is string, in {in}/a.parquet it is int64: score them apart, or "
        "leave it out with --columns",
    ),
]


@pytest.mark.parametrize(("files", "kept", "said"), READ)
def test_all_is_read_or_named(
    run: Run,
    tmp_path: Path,
    files: dict[str, Any],
    kept: Kept,
    said: str,
    capsys: pytest.CaptureFixture[str],
) -> None:
    folder = fill(tmp_path / "in", files)
    for _ in range(2):
        assert run(folder, "--output", tmp_path / "out", "--overwrite") == 0
    assert run(folder, "--output", tmp_path / "out") == 0  # nothing has changed meanwhile
    assert [tuple(row.values())[: len(kept[0])] for row in rows_of(tmp_path / "out")] == kept
    assert said.replace("{in}", str(folder)) in capsys.readouterr().err


def test_pipes_are_named_and_never_read(
    run: Run, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = fill(tmp_path / "in", {"a.csv": GOOD})
    os.mkfifo(folder / "b.csv")
    for inputs in (folder, folder / "*.csv"):
        assert run(inputs, "--output", tmp_path / "out", "--overwrite") == 0
        said = f"skipped 1 pipes, sockets and devices: {folder / 'b.csv'}\n"
        assert said in capsys.readouterr().err
    assert run(folder / "b.csv", "--output", tmp_path / "b") == 1
    expected = f"{folder / 'b.csv'}: is not read, like all pipes, sockets and devices: give a file"
    assert refusal(capsys) == expected
    (folder / "a.csv").unlink()
    assert run(folder, "--output", tmp_path / "out") == 1
    assert refusal(capsys).endswith(f"; {said.rstrip()}")


@pytest.mark.parametrize(
    ("pattern", "kept", "said"),
    [
        ("*", ["a.csv", "b/b.csv"], "skipped 2 hidden files: {in}/_t/c.csv, {in}/b/_x.csv"),
        ("**", ["a.csv", "b/b.csv"], "skipped 2 hidden files: {in}/_t/c.csv, {in}/b/_x.csv"),
        ("**/*.csv", ["a.csv", "b/b.csv"], "skipped 2 hidden files: {in}/_t/c.csv, {in}/b/_x.csv"),
        ("_t/*.csv", ["_t/c.csv"], "planning 1 files"),
        ("b", ["b/b.csv"], "skipped 1 hidden files: {in}/b/_x.csv"),
    ],
)
def test_a_glob_leaves_out_what_its_folder_does(
    run: Run,
    tmp_path: Path,
    pattern: str,
    kept: list[str],
    said: str,
    capsys: pytest.CaptureFixture[str],
) -> None:
    names = ("a.csv", "b/b.csv", "b/_x.csv", "_t/c.csv")
    folder = fill(tmp_path / "in", {name: f"text\n{name}\n" for name in names} | {"_SUCCESS": ""})
    assert run(folder / pattern, "--output", tmp_path / "out") == 0
    assert [row["text"] for row in rows_of(tmp_path / "out")] == kept
    assert said.replace("{in}", str(folder)) in capsys.readouterr().err


def test_a_part_has_all_columns_in_the_form_of_its_input(run: Run, tmp_path: Path) -> None:
    folder = fill(tmp_path / "in", {"a.csv": GOOD, "b.csv": BAD, "c.csv": r"text" + "\n\\N\n"})
    assert run(folder, "--output", tmp_path / "out", "--format", "input") == 0
    parts = files_of(tmp_path / "out")
    assert parts["part-00000.csv"].startswith(b"text,stars,label,")
    assert b"\ngood,," in parts["part-00000.csv"]
    assert b"\nbad,3," in parts["part-00001.csv"]
    assert b'"reason":"the text is null"' in parts["bad-rows.jsonl"]


def test_times_of_spark_have_years_that_nanoseconds_lack(run: Run, tmp_path: Path) -> None:
    last = pyarrow.array([253402300799000001], pyarrow.timestamp("us"))
    table = pyarrow.table({"text": ["good"], "t": last})
    table = table.replace_schema_metadata({"org.apache.spark.version": "3.5.0"})
    path = tmp_path / "a.snappy.parquet"
    parquet.write_table(table, path, use_deprecated_int96_timestamps=True)
    assert run(path, "--output", tmp_path / "a.csv") == 0
    assert "\ngood,9999-12-31 23:59:59.000001," in (tmp_path / "a.csv").read_text()


def test_without_a_header_all_files_have_the_columns_of_the_first(run: Run, tmp_path: Path) -> None:
    rows = "".join(f"{number},This is film number {number},{number % 2}\n" for number in range(9))
    files = {"0.csv": "", "1.csv.gz": gzip.compress(rows.encode()), "2.csv": "9,Short,1\n10,x\n"}
    folder = fill(tmp_path / "in", files)
    for _ in range(2):
        assert run(folder, "--output", tmp_path / "out", "--no-header") == 0
        (folder / "2.csv").touch()
    last = rows_of(tmp_path / "out")[-1]
    assert list(last.values())[:3] == ["9", "Short", "1"]
    assert b"3 columns, this row has 2" in files_of(tmp_path / "out")["bad-rows.jsonl"]


def test_a_column_has_the_type_that_holds_the_values_of_all_files(run: Run, tmp_path: Path) -> None:
    strings = pyarrow.array(["x"])
    kinds = (pyarrow.large_string(), pyarrow.string_view())
    columns = [strings, *map(strings.cast, kinds), strings.dictionary_encode()]
    files = {f"{at}.parquet": {"text": ["good"], "n": each} for at, each in enumerate(columns)}
    assert run(fill(tmp_path / "in", files), "--output", tmp_path / "out") == 0
    parts = sorted((tmp_path / "out").glob("part-*"))
    assert {parquet.read_schema(part).field("n").type for part in parts} == {pyarrow.string()}
    assert [row["n"] for row in rows_of(tmp_path / "out")] == ["x"] * 4


@pytest.mark.parametrize(("files", "fault"), REFUSED)
def test_files_that_do_not_fit_together_are_refused(
    run: Run, tmp_path: Path, files: dict[str, Any], fault: str, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = fill(tmp_path / "in", files)
    assert run(folder, "--output", tmp_path / "out") == 1
    assert refusal(capsys) == f"{folder}/{fault}".replace("{in}", str(folder))
