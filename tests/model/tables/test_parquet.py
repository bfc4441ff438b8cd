"""Columns of Parquet: those that folders name, and types that hold the values of several files."""

from contextlib import closing
from pathlib import Path

import pyarrow
import pytest
from pyarrow import parquet

from model.tables.parquet import ParquetTable, widen, wider_type
from model.tables.pieces import TableFile

NAMED = "lang=de/city=S%C3%A3o Paulo"


@pytest.mark.parametrize(
    ("kinds", "wide"),
    [
        ({"int8", "int64"}, "int64"),
        ({"int8", "int16", "null"}, "int16"),
        ({"int64", "null"}, "int64"),
        ({"string", "null"}, "string"),
        ({"float", "double"}, "double"),
        ({"int64", "string"}, None),
        ({"int64", "list<item: int64>"}, None),
    ],
)
def test_the_type_that_holds_the_values_of_all_files(kinds: set[str], wide: str | None) -> None:
    assert wider_type(kinds) == wide


def test_values_stay_in_a_wider_type() -> None:
    table = pyarrow.table({"n": pyarrow.array([-128, None, 127], pyarrow.int8()), "m": [0, 1, 2]})
    wide = widen(table, {"n": "int64"})
    assert wide.schema.types == [pyarrow.int64(), pyarrow.int64()]
    assert wide.to_pydict() == table.to_pydict()


def test_folders_name_columns_that_the_file_lacks(tmp_path: Path) -> None:
    path = tmp_path / NAMED / "text=x" / "a.parquet"
    path.parent.mkdir(parents=True)
    parquet.write_table(pyarrow.table({"text": ["good", "bad"], "n": [1, 2]}), path)

    file = TableFile(str(path), "parquet", None, lambda: path.open("rb"))
    with closing(ParquetTable(file)) as table:
        assert table.types == [
            ("text", "string"),
            ("n", "int64"),
            ("lang", "string"),
            ("city", "string"),
        ]
        read = table.read_range(["city", "text", "lang"], row_group=0, start=1, end=2)
        assert read.schema == table.schema(["city", "text", "lang"])

    assert read.to_pylist() == [{"city": "S\u00e3o Paulo", "text": "bad", "lang": "de"}]
