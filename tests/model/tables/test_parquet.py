"""Columns of Parquet: those that folders name, and types that hold the values of several files."""

from contextlib import closing
from pathlib import Path
from typing import Any

import pyarrow
import pytest
from pyarrow import parquet

from model.tables.parquet import ParquetTable, cast, wider_type
from model.tables.pieces import TableFile

NAMED = "lang=de/city=S%C3%A3o Paulo"


@pytest.mark.parametrize(
    ("kinds", "wide"),
    [
        (("int8", "int64"), "int64"),
        (("null", "int16"), "int16"),
        (("string", "null"), "string"),
        (("float", "float64"), "float64"),
        (("int64", "string"), None),
        ((pyarrow.int64(), pyarrow.list_(pyarrow.int64())), None),
        ((pyarrow.decimal128(10, 2), pyarrow.decimal128(20, 4)), pyarrow.decimal128(20, 4)),
        ((pyarrow.decimal128(38, 0), pyarrow.decimal128(38, 9)), pyarrow.decimal256(47, 9)),
        ((pyarrow.decimal128(10, 2), pyarrow.float64()), None),
        ((pyarrow.timestamp("us", "UTC"), pyarrow.timestamp("ns", "UTC")), "timestamp[ns, tz=UTC]"),
        ((pyarrow.timestamp("us"), pyarrow.timestamp("us", "UTC")), None),
        ((pyarrow.binary(), pyarrow.string()), "binary"),
    ],
)
def test_the_type_that_holds_the_values_of_all_files(kinds: Any, wide: Any) -> None:  # noqa: ANN401
    types = [pyarrow.type_for_alias(kind) if isinstance(kind, str) else kind for kind in kinds]
    found = wider_type(types)
    assert found == wider_type(types[::-1])
    assert found == wide or str(found) == wide


def test_values_stay_in_a_wider_type_or_are_null_and_named() -> None:
    table = pyarrow.table({"n": [2**53 + 1, None, 127], "m": [0, 1, 2]})
    wide, faults = cast(table, {"n": pyarrow.float64()})
    assert wide.schema.types == [pyarrow.float64(), pyarrow.int64()]
    assert wide.to_pydict() == {"n": [None, None, 127.0], "m": [0, 1, 2]}
    assert faults == {0: "the column 'n' holds a value that does not fit double"}


def test_folders_name_columns_that_the_file_lacks(tmp_path: Path) -> None:
    path = tmp_path / NAMED / "text=x" / "a.parquet"
    path.parent.mkdir(parents=True)
    parquet.write_table(pyarrow.table({"text": ["good", "bad"], "n": [1, 2]}), path)

    file = TableFile(str(path), "parquet", None, lambda: path.open("rb"))
    with closing(ParquetTable(file)) as table:
        assert [*zip(table.schema.names, map(str, table.schema.types), strict=True)] == [
            ("text", "string"),
            ("n", "int64"),
            ("lang", "string"),
            ("city", "string"),
        ]
        read = table.read_range(["city", "text", "lang"], row_group=0, start=1, end=2)

    assert read.to_pylist() == [{"city": "S\u00e3o Paulo", "text": "bad", "lang": "de"}]
