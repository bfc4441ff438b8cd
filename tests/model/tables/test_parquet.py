"""Columns of Parquet: those that folders name, and types that hold the values of several files."""

from contextlib import closing
from pathlib import Path
from typing import Any

import pyarrow
import pytest
from pyarrow import parquet

from model.errors import TableError
from model.tables.parquet import ParquetTable, cast, wider_type
from model.tables.pieces import TableFile
from tests.matching import exactly

NAMED = "lang=de/city=S%C3%A3o Paulo"


@pytest.mark.parametrize(
    ("kinds", "wide"),
    [
        (("null", "int16"), "int16"),
        (("float", "float64"), "float64"),
        ((pyarrow.int64(), pyarrow.list_(pyarrow.int64())), None),
        ((pyarrow.int64(), pyarrow.decimal128(10, 2)), pyarrow.decimal128(22, 2)),
        ((pyarrow.decimal128(38, 0), pyarrow.decimal128(38, 9)), pyarrow.decimal256(47, 9)),
        ((pyarrow.decimal128(10, 2), pyarrow.float64()), None),
        (
            (pyarrow.decimal128(20, 4), "int64", pyarrow.decimal128(10, 2)),
            pyarrow.decimal128(24, 4),
        ),
        (("int8", "int64"), "int64"),
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


def read(path: Path) -> None:
    file = TableFile(str(path), "parquet", None, lambda: path.open("rb"))
    with closing(ParquetTable(file)) as table:
        for piece in table.scan(1).pieces:
            table.read(piece, "text", ["text"])


@pytest.mark.parametrize("is_packed", [True, False], ids=["zstd", "dictionary"])
def test_texts_that_unpack_to_more_than_is_read_are_refused(
    tmp_path: Path, *, is_packed: bool
) -> None:
    path = tmp_path / "a.parquet"
    texts = pyarrow.DictionaryArray.from_arrays(pyarrow.array([0] * 1_024), ["a" * 2**20])
    table = pyarrow.table({"text": texts.cast(pyarrow.string()) if is_packed else texts})
    parquet.write_table(table, path, compression="zstd", use_dictionary=not is_packed)
    fault = "100,000 rows have more than 268,435,456 bytes: write smaller row groups"
    with pytest.raises(TableError, match=exactly(f"{path}: {fault}")):
        read(path)


@pytest.mark.parametrize(
    ("rows", "fault"),
    [
        (b"\x80\x80\x02", "row group 1 has fewer rows"),
        (b"\x80" * 8 + b"\x20", "it says that it has 1,152,921,504,606,846,976 rows"),
    ],
)
def test_a_footer_that_says_more_rows_is_refused(tmp_path: Path, rows: bytes, fault: str) -> None:
    path = tmp_path / "a.parquet"
    parquet.write_table(pyarrow.table({"text": ["good", "bad"] * 5_000}), path)
    content = path.read_bytes()[:-8]
    start = len(content) - int.from_bytes(path.read_bytes()[-8:-4], "little")
    footer = content[start:].replace(b"\xa0\x9c\x01", rows)  # 10,000, as Thrift writes it
    path.write_bytes(content[:start] + footer + len(footer).to_bytes(4, "little") + b"PAR1")
    with pytest.raises(TableError, match=f"is not a whole Parquet file: {fault}"):
        read(path)
