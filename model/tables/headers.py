"""Finds how a table is written from its beginning: its delimiter, and the names of its columns."""

import codecs
import csv
import io
import re
from collections import Counter
from collections.abc import Sequence
from contextlib import closing, suppress
from itertools import islice
from pathlib import Path

from model.errors import TableError
from model.tables.columns import LABEL_COLUMNS, TEXT_COLUMNS, Columns
from model.tables.files import Format
from model.tables.lines import LineReader
from model.tables.raw_rows import RawRow, cells_of, read_raw, to_text

#: what separates the columns of a table, and its name
DELIMITERS = {",": "commas", ";": "semicolons", "\t": "tabs", "|": "bars"}
# A first line of Excel, which is no row.
_SEPARATOR_LINE = re.compile(rb'"?sep=([^"\r\n])"?\s*', re.IGNORECASE)
_NUMBER = re.compile(r"[+-]?[0-9]+(?:[.,][0-9]+)?")
_SAMPLE_ROWS = 200
_MOST_NAME_WORDS, _LONGEST_LABEL = 5, 40  # a name of a column is shorter, and so is a label
# With fewer rows of the same width a text may be cut where it holds the delimiter.
_EVEN_SHARE = 0.9


def read_header(
    reader: LineReader, path: str | Path, file_format: Format, columns: Columns
) -> tuple[tuple[str, ...], str]:
    """Reads the names of a table's columns and its delimiter from its start, or raises TableError.

    Names have no spaces around them unless two would be one name. Without a header they are `text`,
    `label` and `column_N`, by what they hold. An empty file has none, as Spark writes.
    """
    delimiter = _find_delimiter(reader, path, file_format, columns)
    if not delimiter:
        return (), ","
    rows = _sample(reader, path, file_format, delimiter)
    if not columns.header:
        return _names_without_header(path, rows, columns), delimiter
    row = next(read_raw(reader, path, file_format, delimiter))
    if row.error is not None:
        raise TableError(path, f"the header {row.error}", row=row.line)
    try:
        row.content.decode()
    except UnicodeDecodeError as error:
        raise TableError(
            path,
            f"the header is not UTF-8 (byte 0x{row.content[error.start]:02x}): convert the file to "
            "UTF-8, or name its encoding, such as --encoding cp1252",
            row=row.line,
        ) from error
    names = _trim(cells_of(row))
    if not _is_known(names, columns) and _looks_like_row(names, rows[1:]):
        raise TableError(
            path,
            "has no header, its first line looks like the others: add --no-header, or a first line "
            "with the names of the columns",
            row=row.line,
        )
    bare = tuple(name.strip() for name in names)
    return bare if len(set(bare)) == len(set(names)) else names, delimiter


def _find_delimiter(
    reader: LineReader, path: str | Path, file_format: Format, columns: Columns
) -> str:
    """Returns the delimiter, if any; leaves the reader where the header or the first row begins."""
    declared = reader.delimiter
    for line in reader:
        content = line.removeprefix(codecs.BOM_UTF8) if reader.line == 2 else line
        separator = _SEPARATOR_LINE.fullmatch(content) if file_format == "csv" else None
        if separator is not None:
            declared = to_text(separator[1])
        elif content.strip():
            reader.push_back(line)
            break
    else:
        return ""
    wanted = "\t" if file_format == "tsv" else columns.delimiter
    if file_format == "csv" and (reader.delimiter or (declared and wanted is None)):
        return declared or ","
    first = to_text(content)
    if wanted is None:
        return _detect(reader, path, first)
    counts = {delimiter: _count_cells(first, delimiter) for delimiter in DELIMITERS}
    found = max(counts, key=counts.__getitem__)
    is_tsv = file_format == "tsv"  # perhaps a text on each line, without a header
    names = [name.strip() for name in next(csv.reader([first], delimiter=found), [])]
    if wanted in first or counts[found] < 2 or (is_tsv and not _is_known(names, columns)):
        return wanted
    fault = f"is separated by {DELIMITERS[found]}, not by {DELIMITERS.get(wanted, repr(wanted))}"
    advice = "give its name the suffix .csv" if is_tsv else "leave out --delimiter"
    raise TableError(path, f"{fault}: {advice}")


def _detect(reader: LineReader, path: str | Path, first: str) -> str:
    """Returns the delimiter that most columns have; the rows decide where the header does not."""
    counts = {delimiter: _count_cells(first, delimiter) for delimiter in DELIMITERS}
    likely = [delimiter for delimiter, count in counts.items() if count > 1]
    if len(likely) > 1:
        even = [each for each in likely if _fits(_sample(reader, path, "csv", each), counts[each])]
        most = max(counts[each] for each in even or likely)
        likely = [each for each in even or likely if counts[each] == most]
    if len(likely) > 1:
        listed = " or ".join(DELIMITERS[each] for each in likely)
        raise TableError(
            path, f"is separated by {listed}, which is not sure: name one, as in --delimiter ';'"
        )
    return likely[0] if likely else ","


def _count_cells(header: str, delimiter: str) -> int:
    try:
        return len(next(csv.reader([header], delimiter=delimiter, strict=True)))
    except csv.Error:
        return 1


def _fits(rows: Sequence[RawRow], count: int) -> bool:
    return len(rows) > 1 and all(len(row.cells or ()) == count for row in rows)


def _sample(
    reader: LineReader, path: str | Path, file_format: Format, delimiter: str
) -> list[RawRow]:
    """Parses the first rows that are read already; the reader stays where it is."""
    rows: list[RawRow] = []
    copy = LineReader(path, io.BytesIO(reader.peek()), encoding="utf-8")
    copy.line = reader.line
    with closing(copy), suppress(TableError):
        rows.extend(islice(read_raw(copy, path, file_format, delimiter), _SAMPLE_ROWS))
    return rows


def _trim(cells: Sequence[str]) -> tuple[str, ...]:
    """Leaves out the empty columns at the end that Excel writes."""
    filled = [index for index, cell in enumerate(cells, start=1) if cell.strip()]
    return tuple(cells[: filled[-1] if filled else 1])


def _is_known(names: Sequence[str], columns: Columns) -> bool:
    """Whether a name is one that the user gave, or a usual one."""
    wanted = {name.strip() for name in (columns.text, columns.label) if name}
    usual = {*TEXT_COLUMNS, *LABEL_COLUMNS}
    return any(name.strip() in wanted or name.strip().casefold() in usual for name in names)


def _looks_like_row(names: Sequence[str], rows: Sequence[RawRow]) -> bool:
    """Whether names are values: a number, many words, or what later rows hold in this column."""
    if any(_NUMBER.fullmatch(name.strip()) for name in names):
        return True
    if any(len(name.split()) > _MOST_NAME_WORDS for name in names):
        return True
    if len(names) == 1 and len(names[0].split()) > 1:
        return True
    below = [cells_of(row) for row in rows if row.error is None]
    return any(
        name.strip() and name == cells[index]
        for cells in below
        for index, name in enumerate(names)
        if index < len(cells)
    )


def _names_without_header(
    path: str | Path, rows: Sequence[RawRow], columns: Columns
) -> tuple[str, ...]:
    cells = [cells_of(row) for row in rows if row.error is None]
    first = [name.strip().casefold() for name in cells[0]] if cells else []
    named = [name for name in first if name in TEXT_COLUMNS]
    if named and len(set(first)) == len(first) and max(map(len, first)) <= _LONGEST_LABEL:
        raise TableError(
            path, f"has a header, its first line names a column {named[0]!r}: leave out --no-header"
        )
    counts = Counter(len(_trim(row)) for row in cells)
    width, fitting = counts.most_common(1)[0] if counts else (1, 0)
    if fitting < _EVEN_SHARE * len(cells):
        raise TableError(
            path,
            f"has rows of {min(counts)} to {max(counts)} columns and no header: quote texts that "
            "hold the delimiter, or name a file with a text on each line .txt",
        )
    values = [[row[index].strip() for row in cells if index < len(row)] for index in range(width)]
    names = [f"column_{index}" for index in range(1, width + 1)]
    texts = [index for index in range(width) if width == 1 or _holds_texts(values[index])]
    labels = [index for index in range(width) if _holds_labels(values[index])]
    if columns.text is None and len(texts) == 1:
        names[texts[0]] = "text"
    if columns.label is None and len(labels) == 1 and labels != texts:
        names[labels[0]] = "label"
    return tuple(names)


def _holds_texts(values: Sequence[str]) -> bool:
    """Whether most values are different, of three words or more on average."""
    words = sum(len(value.split()) for value in values)
    return words >= 3 * len(values) and 2 * len(set(values)) > len(values)


def _holds_labels(values: Sequence[str]) -> bool:
    """Whether there are few different values, all short."""
    few = len(set(values)) <= max(2, len(values) // 3)
    return few and all(len(value) <= _LONGEST_LABEL and len(value.split()) < 3 for value in values)
