"""Reads rows of text and label from files of every form; the suffix decides the form.

A row is returned as the file spells it; here it is at fault only if its values cannot be read.
"""

import io
import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from pathlib import Path, PurePosixPath
from typing import Any

from model.errors import TableError
from model.tables.columns import TEXT_COLUMNS, Columns, choose_text_and_label
from model.tables.files import FORMATS, Compression, Format, format_of
from model.tables.headers import read_header
from model.tables.lines import NOT_UTF8, LineReader, import_pyarrow
from model.tables.raw_rows import read_raw
from model.tables.values import read_cells, read_record, text_fault

_EMPTY = "is empty: it must hold a text and a label in each row"


class ClassName(str):
    """A label that the file numbers and names: the name, which is never read as a number."""

    __slots__ = ()


@dataclass(frozen=True, slots=True)
class Row:
    """One row of a file.

    Args:
        number: the line on which the row begins, the header being line 1; in Parquet and in a JSON
            array the number of the row, from 1.
        fault: why the values could not be read; None if they could.
    """

    number: int
    text: object = None
    label: object = None
    fault: str | None = None


def read_rows(path: Path, content: bytes, columns: Columns) -> Iterator[Row]:
    """Reads a file, row by row.

    Raises:
        TableError: the format is unknown, the file is damaged, or its columns are not found.
    """
    kind = format_of(str(path), lambda: io.BytesIO(content))
    if kind is None:
        shown = "".join(PurePosixPath(path.name.lower()).suffixes[-2:])
        named = f"the suffix {shown} is not one that is read" if shown else "has no suffix"
        raise TableError(path, f"{named}: use {FORMATS}")
    file_format, compression = kind
    if file_format == "parquet":
        return _read_parquet(path, content, columns)
    if file_format == "jsonl":
        return _read_json_lines(path, content, columns, compression)
    return _read_table(path, content, columns, file_format, compression)


def read_texts(path: Path) -> list[str]:
    """Reads a file of texts without labels, one text a line, and skips a header."""
    try:
        content = path.read_bytes()
    except OSError as error:
        raise TableError(path, f"cannot be read: {error.strerror}") from error
    _, compression = format_of(path.name) or (None, None)
    texts = []
    with closing(LineReader(path, io.BytesIO(content), compression)) as reader:
        for raw in read_raw(reader, path, "tsv"):
            try:
                text = raw.content.decode().removesuffix("\n").removesuffix("\r")
                if raw.line == 1 and text.strip().casefold() in TEXT_COLUMNS:
                    continue
            except UnicodeDecodeError as error:
                raise TableError(path, NOT_UTF8, row=raw.line) from error
            if (fault := text_fault(text)) is not None:
                raise TableError(path, fault, row=raw.line)
            texts.append(text)
    if not texts:
        raise TableError(path, "is empty: it must hold a text on each line")
    return texts


def _read_table(
    path: Path,
    content: bytes,
    columns: Columns,
    file_format: Format,
    compression: Compression | None,
) -> Iterator[Row]:
    file = LineReader(path, io.BytesIO(content), compression, columns.encoding)
    with closing(file) as reader:
        header, delimiter = read_header(reader, path, file_format, columns)
        indices = [header.index(name) for name in choose_text_and_label(path, header, columns)]
        for raw in read_raw(reader, path, file_format, delimiter):
            try:
                cells = read_cells(raw, len(header))
            except ValueError as error:
                yield Row(raw.line, fault=str(error))
            else:
                yield Row(raw.line, *(cells[index] for index in indices))


def _read_json_lines(
    path: Path, content: bytes, columns: Columns, compression: Compression | None
) -> Iterator[Row]:
    def records() -> Iterator[tuple[int, dict[str, Any] | str]]:
        """Yields the line of each record, and the record or why it cannot be read."""
        file = io.BytesIO(content)
        with closing(LineReader(path, file, compression, columns.encoding, of_json=True)) as reader:
            for raw in read_raw(reader, path, "jsonl"):
                try:
                    yield raw.line, read_record(raw.content)
                except ValueError as error:
                    yield raw.line, str(error)

    # Twice, because any row may be the first that has a column.
    names: dict[str, None] = {}
    is_empty = True
    for _, record in records():
        is_empty = False
        if not isinstance(record, str):
            names.update(dict.fromkeys(record))
    if is_empty:
        raise TableError(path, _EMPTY)
    chosen = choose_text_and_label(path, list(names), columns) if names else ()
    for line, record in records():
        if isinstance(record, str):
            yield Row(line, fault=record)
        elif missing := [repr(name) for name in chosen if name not in record]:
            yield Row(line, fault=f"lacks {' and '.join(missing)}")
        else:
            yield Row(line, *(record[name] for name in chosen))


def _read_parquet(path: Path, content: bytes, columns: Columns) -> Iterator[Row]:
    if not content:
        raise TableError(path, _EMPTY)
    import_pyarrow(path, "Parquet")
    from model.tables.parquet import ParquetInput, labels_of, texts_of

    number = 0
    with ParquetInput(path, io.BytesIO(content)) as file:
        text, label = choose_text_and_label(path, [name for name, _ in file.types], columns)
        names = class_names(file.metadata, label)
        for group, count in enumerate(file.group_rows):
            table = file.read([text, label], row_group=group, start=0, end=count)
            for values in zip(texts_of(table[text]), labels_of(table[label]), strict=True):
                number += 1
                row = Row(number, *values)
                yield row if names is None else _name_class(row, names)


def class_names(metadata: Mapping[bytes, bytes], column: str) -> Sequence[str] | None:
    """Returns the names of the classes that `datasets` keeps in the schema of a Parquet file."""
    try:
        feature = json.loads(metadata[b"huggingface"])["info"]["features"][column]
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
