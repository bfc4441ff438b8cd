"""Divides a text file into rows: a line, or in CSV the lines between two row ends.

The same code decides where to cut a file and reads the pieces, so a piece has the same rows.
"""

import codecs
import csv
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from model.errors import TableError
from model.tables.files import Format
from model.tables.lines import MOST_ROW_BYTES, LineReader

csv.field_size_limit(MOST_ROW_BYTES)


class RawRow(NamedTuple):
    """One row as the file has it: its bytes with the line end, and its first line from 1."""

    content: bytes
    line: int
    cells: list[str] | None = None  # of CSV that could be parsed
    error: str | None = None  # why it could not


def read_raw(
    reader: LineReader, path: str | Path, file_format: Format, delimiter: str = ","
) -> Iterator[RawRow]:
    """Reads rows from where the reader is; leaves out blank lines between them."""
    lines = iter(reader)
    for line in lines:
        number = reader.line - 1
        content = line.removeprefix(codecs.BOM_UTF8) if number == 1 else line
        if not (content.strip() if file_format == "jsonl" else content.rstrip(b"\r\n")):
            continue
        if file_format == "csv":
            yield _csv_row(content, number, lines, path, delimiter)
        else:
            yield RawRow(content, number)


def _csv_row(
    first: bytes, number: int, lines: Iterator[bytes], path: str | Path, delimiter: str
) -> RawRow:
    """Reads one CSV row, which takes further lines while a quote is open."""
    text = to_text(first)
    body = text.rstrip("\r\n")
    if '"' not in body and "\r" not in body:
        return RawRow(first, number, body.split(delimiter))
    taken = bytearray(first)

    def feed() -> Iterator[str]:
        yield text
        for line in lines:
            taken.extend(line)
            if len(taken) > MOST_ROW_BYTES:
                break
            yield to_text(line)
        raise TableError(
            path,
            "a quote is opened and never closed: close it, or write a quote inside a field twice "
            '("")',
            row=number,
        )

    try:
        cells = next(csv.reader(feed(), delimiter=delimiter, strict=True))
    except csv.Error as error:
        fault = f'is not CSV: {error}: write a quote inside a field twice ("")'
        return RawRow(bytes(taken), number, error=fault)
    return RawRow(bytes(taken), number, cells=cells)


def to_text(line: bytes) -> str:
    """Decodes UTF-8; bytes that are something else become lone surrogates."""
    return line.decode("utf-8", errors="surrogateescape")


def is_utf8(content: bytes) -> bool:
    """Whether all bytes are UTF-8."""
    try:
        return content.isascii() or bool(content.decode())
    except UnicodeDecodeError:
        return False


def cells_of(row: RawRow) -> list[str]:
    """Returns the cells of a row; none if it could not be parsed. A quote is text in TSV."""
    if row.error is not None or row.cells is not None:
        return row.cells or []
    return to_text(row.content).removesuffix("\n").removesuffix("\r").split("\t")
