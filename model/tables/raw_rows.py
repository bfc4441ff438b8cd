"""Divides a text file into rows: a line, or in CSV the lines between two row ends.

The same code decides where to cut a file and reads the pieces, so a piece has the same rows.
"""

import codecs
import csv
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from model.errors import TableError
from model.tables.files import Format
from model.tables.lines import MOST_ROW_BYTES, LineReader

NOT_UTF8 = "is not UTF-8: convert the file to UTF-8, or name its encoding with --encoding"
#: what separates the columns of a table, and its name
DELIMITERS = {",": "commas", ";": "semicolons", "\t": "tabs", "|": "bars"}
# A first line of Excel, which is no row.
_SEPARATOR_LINE = re.compile(rb'"?sep=([^"\r\n])"?\s*', re.IGNORECASE)
csv.field_size_limit(MOST_ROW_BYTES)


@dataclass(frozen=True, slots=True)
class RawRow:
    """One row as the file has it: its bytes with the line end, and its first line from 1.

    `cells` are None except for CSV that could be parsed; `error` is why it could not.
    """

    content: bytes
    line: int
    cells: list[str] | None = None
    error: str | None = None


def read_header(
    reader: LineReader, path: str | Path, file_format: Format, delimiter: str | None = None
) -> tuple[tuple[str, ...], str]:
    """Reads the header of a table from its start.

    Args:
        delimiter: of CSV; None: that of a line `sep=;` before the header, or else of the header.

    Returns:
        The names of the columns, without spaces around them unless two would be one name, and the
        delimiter.

    Raises:
        TableError: there is no header, it cannot be read, or it has another delimiter.
    """
    lines = iter(reader)
    declared = None
    for line in lines:
        number = reader.line - 1
        content = line.removeprefix(codecs.BOM_UTF8) if number == 1 else line
        separator = _SEPARATOR_LINE.fullmatch(content) if file_format == "csv" else None
        if separator is not None:
            declared = to_text(separator[1])
        elif content.strip():
            break
    else:
        raise TableError(path, "is empty: it must begin with a header")
    if file_format == "csv" and delimiter is None and declared is not None:
        delimiter = declared
    else:
        delimiter = _choose_delimiter(path, to_text(content), file_format, delimiter)
    row = RawRow(content, number)
    if file_format == "csv":
        row = _csv_row(content, number, lines, path, delimiter)
    if row.error is not None:
        raise TableError(path, f"the header {row.error}", row=number)
    try:
        row.content.decode()
    except UnicodeDecodeError as error:
        raise TableError(
            path,
            f"the header is not UTF-8 (byte 0x{row.content[error.start]:02x}): convert the file to "
            "UTF-8, or name its encoding, such as --encoding cp1252",
            row=number,
        ) from error
    names = tuple(split_tsv(row.content) if row.cells is None else row.cells)
    bare = tuple(name.strip() for name in names)
    return bare if len(set(bare)) == len(set(names)) else names, delimiter


def _choose_delimiter(
    path: str | Path, header: str, file_format: Format, wanted: str | None
) -> str:
    counts = {delimiter: _count_cells(header, delimiter) for delimiter in DELIMITERS}
    found = max(counts, key=counts.__getitem__)  # commas if there are as many of others
    if file_format == "csv" and wanted is None:
        return found
    wanted = "\t" if file_format == "tsv" else wanted or ","
    if wanted in header or counts[found] < 2:
        return wanted
    fault = f"is separated by {DELIMITERS[found]}, not by {DELIMITERS.get(wanted, repr(wanted))}"
    if file_format == "tsv":
        raise TableError(path, f"{fault}: give its name the suffix .csv")
    raise TableError(path, f"{fault}: leave out --delimiter")


def _count_cells(header: str, delimiter: str) -> int:
    try:
        return len(next(csv.reader([header], delimiter=delimiter, strict=True)))
    except csv.Error:
        return 1


def read_raw(
    reader: LineReader, path: str | Path, file_format: Format, delimiter: str = ","
) -> Iterator[RawRow]:
    """Reads rows from where the reader is; leaves out blank lines between them."""
    lines = iter(reader)
    is_first = reader.line == 1
    for line in lines:
        number = reader.line - 1
        content = line.removeprefix(codecs.BOM_UTF8) if number == 1 else line
        if not (content.strip() if file_format == "jsonl" else content.rstrip(b"\r\n")):
            continue
        if is_first and file_format == "jsonl" and _begins_array(content):
            raise TableError(
                path,
                "is one JSON array, not JSON Lines: write each object on a line of its own, as "
                "jq -c '.[]' does",
            )
        is_first = False
        if file_format == "csv":
            yield _csv_row(content, number, lines, path, delimiter)
        else:
            yield RawRow(content, number)


def _begins_array(line: bytes) -> bool:
    """Whether a file begins with a list of objects; another list is a bad row."""
    start = re.sub(rb"\s", b"", line[:100])
    return start == b"[" or start.startswith(b"[{")


def _csv_row(
    first: bytes, number: int, lines: Iterator[bytes], path: str | Path, delimiter: str
) -> RawRow:
    """Reads one CSV row, which takes further lines while a quote is open."""
    taken = [first]

    def feed() -> Iterator[str]:
        yield to_text(first)
        length = len(first)
        for line in lines:
            taken.append(line)
            length += len(line)
            if length > MOST_ROW_BYTES:
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
        return RawRow(b"".join(taken), number, error=fault)
    return RawRow(b"".join(taken) if len(taken) > 1 else first, number, cells=cells)


def to_text(line: bytes) -> str:
    """Decodes UTF-8; bytes that are something else become lone surrogates."""
    return line.decode("utf-8", errors="surrogateescape")


def split_tsv(content: bytes) -> list[str]:
    """Splits a line of a TSV file, in which a quote is text."""
    return to_text(content).removesuffix("\n").removesuffix("\r").split("\t")
