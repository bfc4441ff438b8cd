"""Columns of Parquet: those that folders name, and types that hold the values of several files."""

from typing import Any

import pyarrow
import pytest

from model.tables.parquet import cast, wider_type

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
