"""Reads rows of text and label from files of every form; the suffix decides the form.

A row is returned as the file spells it; here it is at fault only if its values cannot be read.
"""

import io
import json
from collections.abc import Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Any, BinaryIO

from model.errors import TableError
from model.tables.columns import Columns, choose_text_and_label
from model.tables.files import FORMATS, format_of
from model.tables.pieces import TableFile
from model.tables.table import TextTable, open_table

if TYPE_CHECKING:
    from model.tables.parquet import ParquetTable

_PIECE_BYTES = 1024 * 1024
_EMPTY = "is empty: it must hold a text and a label in each row"


class ClassName(str):
    """A label that the file numbers and names: the name, which is never read as a number."""

    __slots__ = ()


@dataclass(frozen=True, slots=True)
class Row:
    """One row of a file."""

    number: int  # the line where it begins; in Parquet and in a JSON array that of the row, from 1
    text: object = None
    label: object = None
    fault: str | None = None  # why the values could not be read


def read_rows(path: Path, content: bytes, columns: Columns) -> Iterator[Row]:
    """Reads a file, row by row, or raises TableError."""

    def open_file() -> BinaryIO:
        return io.BytesIO(content)

    form = format_of(str(path), open_file)
    if form is None:
        shown = "".join(PurePosixPath(path.name.lower()).suffixes[-2:])
        named = f"the suffix {shown} is not one that is read" if shown else "has no suffix"
        raise TableError(path, f"{named}: use {FORMATS}")
    if form[0] == "parquet" and not content:
        raise TableError(path, _EMPTY)
    with closing(open_table(TableFile(str(path), *form, open_file), columns)) as table:
        if not isinstance(table, TextTable):
            yield from _rows_of_parquet(table, columns)
            return
        if not (table.scan(_PIECE_BYTES).rows if form[0] == "jsonl" else table.names):
            raise TableError(path, _EMPTY)
        names = table.names  # none if no line is an object
        for row in table.rows(choose_text_and_label(path, names, columns) if names else ()):
            if row.fault is not None:
                yield Row(row.number, fault=row.fault)
            else:
                text, label = row.values
                yield Row(row.number, text, label)


def _rows_of_parquet(table: "ParquetTable", columns: Columns) -> Iterator[Row]:
    from model.tables.parquet import labels_of, texts_of

    text, label = choose_text_and_label(table.file.path, table.schema.names, columns)
    names = class_names(table.schema, label)
    for piece in table.scan(_PIECE_BYTES).pieces:
        group = piece.row_group or 0
        values = table.read_range([text, label], row_group=group, start=piece.start, end=piece.end)
        pairs = zip(texts_of(values[text]), labels_of(values[label]), strict=True)
        for number, pair in enumerate(pairs, piece.first_row):
            row = Row(number, *pair)
            yield row if names is None else _name_class(row, names)


def class_names(schema: Any, column: str) -> Sequence[str] | None:  # noqa: ANN401
    """Returns the names of the classes that `datasets` keeps in the schema of a Parquet file."""
    try:
        feature = json.loads(schema.metadata[b"huggingface"])["info"]["features"][column]
        names = feature["names"] if feature["_type"] == "ClassLabel" else None
    except (LookupError, TypeError, ValueError, RecursionError):
        return None
    if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
        return None
    return None if names == [str(index) for index in range(len(names))] else names


def _name_class(row: Row, names: Sequence[str]) -> Row:
    """Names a number after its class; -1 stands for no label, as in `datasets`."""
    label = row.label
    if not isinstance(label, int | float) or label != label // 1:
        return row
    if label == -1:
        return replace(row, label=None)
    if 0 <= label < len(names):
        return replace(row, label=ClassName(names[int(label)]))
    fault = f"label {label} has no name: the schema of the file names 0 to {len(names) - 1}"
    return Row(row.number, fault=fault)
