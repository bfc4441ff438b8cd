"""Parquet files of one job whose columns differ in type, or are named by folders."""

from pathlib import Path

import pyarrow
import pytest
from pyarrow import parquet

from tests.scoring.conftest import Run, refusal, rows_of


def write(path: Path, values: pyarrow.Array) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    texts = ["good", "bad"][: len(values)]
    parquet.write_table(pyarrow.table({"text": texts, "n": values}), path)


@pytest.mark.parametrize(
    ("first", "second", "wide"),
    [
        (
            pyarrow.array([-128, 127], pyarrow.int8()),
            pyarrow.array([2**62, -(2**62)]),
            pyarrow.int64(),
        ),
        (pyarrow.array([1, 2**53 + 1]), pyarrow.nulls(2), pyarrow.int64()),
        (pyarrow.nulls(2), pyarrow.array(["x", None]), pyarrow.string()),
    ],
    ids=["int8-int64", "int64-null", "null-string"],
)
def test_columns_widen_to_hold_the_values_of_all_files(
    run: Run,
    tmp_path: Path,
    first: pyarrow.Array,
    second: pyarrow.Array,
    wide: object,
) -> None:
    write(tmp_path / "in" / "a.parquet", first)
    write(tmp_path / "in" / "b.parquet", second)

    assert run(tmp_path / "in", "--output", tmp_path / "out") == 0

    parts = sorted((tmp_path / "out").glob("part-*"))
    assert [parquet.read_schema(part).field("n").type for part in parts] == [wide, wide]
    values = [row["n"] for row in rows_of(tmp_path / "out")]
    assert values == [*first.to_pylist(), *second.to_pylist()]


def test_columns_that_no_type_holds_are_refused(
    run: Run, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write(tmp_path / "in" / "a.parquet", pyarrow.array([1]))
    write(tmp_path / "in" / "b.parquet", pyarrow.array(["x"]))

    assert run(tmp_path / "in", "--output", tmp_path / "out") == 1
    assert refusal(capsys).endswith(
        "the column 'n' is string, in "
        f"{tmp_path / 'in' / 'a.parquet'} it is int64: score them apart, or leave it out with "
        "--columns"
    )


def test_folders_name_columns_of_parts_and_of_one_file(run: Run, tmp_path: Path) -> None:
    path = tmp_path / "in" / "lang=de" / "a.parquet"
    write(path, pyarrow.array([1, 2]))
    write(tmp_path / "in" / "lang=pt%2DBR" / "b.parquet", pyarrow.array([3]))

    assert run(tmp_path / "in", "--output", tmp_path / "out") == 0
    assert run(path, "--output", tmp_path / "one.parquet") == 0

    rows = [(row["n"], row["lang"]) for row in rows_of(tmp_path / "out")]
    assert rows == [(1, "de"), (2, "de"), (3, "pt-BR")]
    one = parquet.read_table(tmp_path / "one.parquet", partitioning=None)
    assert one.column_names == ["text", "n", "lang", "label", "score"]
    assert one["lang"].to_pylist() == ["de", "de"]
