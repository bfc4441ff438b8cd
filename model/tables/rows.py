"""Reads rows of TSV, CSV, JSON Lines and Parquet files; the suffix decides the format.

A row is returned as the file spells it. `training.data.dataset` checks its text and label. Here a
row is at fault only if a value is missing.
"""

import csv
import gzip
import io
import json
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from model.errors import InputError, TableError
from model.tokenization.tokenizer import TEXT_COLUMNS, check_text

LABEL_COLUMNS = ("label", "sentiment", "polarity", "class")
FORMATS = ".tsv, .csv, .jsonl, .ndjson (each also with .gz) and .parquet"
DELIMITERS = {";": "semicolons", "\t": "tabs", "|": "bars", ",": "commas"}
_EMPTY = "is empty: it must hold a text and a label in each row"


@dataclass(frozen=True, slots=True)
class Columns:
    """Which columns hold what.

    Args:
        text: name of the column of texts; None: the one with a name of `TEXT_COLUMNS`.
        label: name of the column of labels; None: the one with a name of `LABEL_COLUMNS`.
        delimiter: what separates the columns of a CSV file, one character; other formats have
            their own.
    """

    text: str | None = None
    label: str | None = None
    delimiter: str = ","


class ClassName(str):
    """A label that the file numbers and names: the name, which is never read as a number."""

    __slots__ = ()


@dataclass(frozen=True, slots=True)
class Row:
    """One row of a file.

    Args:
        number: the line on which the row begins, the header being line 1; in Parquet the number
            of the row, from 1.
        fault: why the values could not be read; None if they could.
    """

    number: int
    text: object = None
    label: object = None
    fault: str | None = None


def read_rows(path: Path, content: bytes, columns: Columns) -> Iterator[Row]:
    """Reads a file, row by row.

    Raises:
        TableError: the format is unknown, the file is damaged or not UTF-8, or its columns are
            not found.
    """
    name = path.name.lower()
    compressed = name.endswith(".gz")
    suffix = Path(name.removesuffix(".gz")).suffix
    if suffix == ".parquet" and not compressed:
        return _read_parquet(path, content, columns)
    reader = _TEXT_READERS.get(suffix)
    if reader is None:
        shown = suffix + ".gz" * compressed
        named = f"the suffix {shown} is not one that is read" if shown else "has no suffix"
        raise TableError(path, f"{named}: use {FORMATS}")
    return reader(path, _decode(path, content), columns)


def read_texts(path: Path) -> list[str]:
    """Reads a file of texts without labels, one text a line, and skips a header."""
    try:
        content = path.read_bytes()
    except OSError as error:
        raise TableError(path, f"cannot be read: {error.strerror}") from error
    lines = [line.removesuffix("\r") for line in _decode(path, content).split("\n")]
    first = 1 if lines[0].strip().casefold() in TEXT_COLUMNS else 0
    texts = []
    for number, line in enumerate(lines[first:], start=first + 1):
        if not line:
            continue
        try:
            check_text(line)
        except InputError as error:
            raise TableError(path, str(error), row=number) from error
        texts.append(line)
    return texts


def _decode(path: Path, content: bytes) -> str:
    """Decodes a file, after unpacking it if its suffix is `.gz`."""
    if path.name.lower().endswith(".gz"):
        try:
            content = gzip.decompress(content)
        except (OSError, EOFError, zlib.error) as error:
            raise TableError(path, f"is not a whole gzip file: {error}") from error
    try:
        decoded = content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise TableError(
            path,
            f"is not UTF-8 (byte 0x{content[error.start]:02x}): convert the file to UTF-8",
            row=content.count(b"\n", 0, error.start) + 1,
        ) from error
    if not decoded.strip():
        raise TableError(path, _EMPTY)
    return decoded


def _read_tsv(path: Path, content: str, columns: Columns) -> Iterator[Row]:
    # Without the csv module: a quote is text here, and only a line feed ends a line.
    _check_separated(path, content, "\t")
    lines = (line.removesuffix("\r") for line in content.split("\n"))
    cells = ((number, line.split("\t")) for number, line in enumerate(lines, start=1) if line)
    return _rows_of_table(path, cells, columns)


def _read_csv(path: Path, content: str, columns: Columns) -> Iterator[Row]:
    # First of all: quotes in a file of other delimiters look like faults of its rows.
    _check_separated(path, content, columns.delimiter)
    cells = _cells_of_csv(path, content, columns.delimiter)
    return _rows_of_table(path, cells, columns)


def _check_separated(path: Path, content: str, delimiter: str) -> None:
    """Rejects a table whose first line is separated only by another character."""
    header = content.lstrip().partition("\n")[0]
    if delimiter in header:
        return
    actual = next((other for other in DELIMITERS if other in header), None)
    if actual is None:
        return
    wanted = DELIMITERS.get(delimiter, repr(delimiter))
    fault = f"is separated by {DELIMITERS[actual]}, not by {wanted}"
    if delimiter == "\t":
        suffix = ".csv" if actual == "," else f".csv and add --delimiter '{actual}'"
        raise TableError(path, f"{fault}: give its name the suffix {suffix}")
    if actual == "\t":
        raise TableError(path, f"{fault}: add --delimiter tab")
    option = "leave out --delimiter" if actual == "," else f"add --delimiter '{actual}'"
    raise TableError(path, f"{fault}: {option}")


def _cells_of_csv(path: Path, content: str, delimiter: str) -> list[tuple[int, list[str]]]:
    # Strict: otherwise an unclosed quote swallows the rest of the file.
    reader = csv.reader(io.StringIO(content, newline="\n"), delimiter=delimiter, strict=True)
    rows = []
    number = 1
    limit = csv.field_size_limit(len(content))  # a setting of the whole process; restored below
    try:
        for cells in reader:
            if cells:
                rows.append((number, cells))
            number = reader.line_num + 1
    except csv.Error as error:
        separator = "a comma" if delimiter == "," else repr(delimiter)
        raise TableError(
            path,
            f"is not CSV ({error}): put a field that holds {separator}, a quote or a line break "
            'between quotes, and write a quote inside it twice ("")',
            row=number,
        ) from error
    finally:
        csv.field_size_limit(limit)
    return rows


def _rows_of_table(
    path: Path, lines: Iterable[tuple[int, list[str]]], columns: Columns
) -> Iterator[Row]:
    rest = iter(lines)
    header = [name.strip() for name in next(rest)[1]]
    text, label = _choose_columns(path, header, columns)
    text_index, label_index = header.index(text), header.index(label)
    for number, values in rest:
        if len(values) == len(header):
            yield Row(number, values[text_index], values[label_index])
        else:
            fault = f"the header has {len(header)} columns, this row has {len(values)}"
            yield Row(number, fault=fault)


def _read_json_lines(path: Path, content: str, columns: Columns) -> Iterator[Row]:
    chosen: tuple[str, str] | None = None
    for number, line in enumerate(content.split("\n"), start=1):
        if not line.strip():
            continue
        try:
            record = json.loads(line)
        except (ValueError, RecursionError) as error:
            yield Row(number, fault=f"is not JSON: {error}")
            continue
        if not isinstance(record, dict):
            yield Row(number, fault=f"must be a JSON object, is {type(record).__name__}")
            continue
        chosen = chosen or _choose_columns(path, list(record), columns)
        missing = [name for name in chosen if name not in record]
        if missing:
            yield Row(number, fault=f"lacks {' and '.join(map(repr, missing))}")
        else:
            yield Row(number, record[chosen[0]], record[chosen[1]])


def _read_parquet(path: Path, content: bytes, columns: Columns) -> Iterator[Row]:
    if not content:
        raise TableError(path, _EMPTY)
    try:
        import pyarrow
        from pyarrow import parquet
    except ImportError as error:
        raise TableError(
            path,
            "Parquet needs pyarrow, which is not installed: "
            ".venv/bin/pip install --constraint constraints.txt --editable '.[train]'",
        ) from error
    try:
        with parquet.ParquetFile(pyarrow.BufferReader(content)) as file:
            text, label = _choose_columns(path, file.schema_arrow.names, columns)
            table = file.read(columns=[text, label])
            texts, labels = table[text].to_pylist(), table[label].to_pylist()
            names = _class_names(file.schema_arrow.metadata, label)
    except (pyarrow.ArrowException, OSError, UnicodeDecodeError) as error:
        raise TableError(path, f"is not a whole Parquet file: {error}") from error
    rows = enumerate(zip(texts, labels, strict=True), 1)
    if names is None:
        return (Row(number, text, label) for number, (text, label) in rows)
    return (_name_class(Row(number, text, label), names) for number, (text, label) in rows)


def _class_names(metadata: Mapping[bytes, bytes] | None, column: str) -> Sequence[str] | None:
    """Returns the names of the classes that `datasets` keeps in the schema of a Parquet file."""
    try:
        feature = json.loads((metadata or {})[b"huggingface"])["info"]["features"][column]
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


def _choose_columns(path: Path, found: Sequence[str], columns: Columns) -> tuple[str, str]:
    text = _choose_column(path, found, columns.text, TEXT_COLUMNS, "text")
    label = _choose_column(path, found, columns.label, LABEL_COLUMNS, "label")
    if text == label:
        raise TableError(
            path, f"text and label cannot both be the column {text!r}: choose two columns"
        )
    return text, label


def _choose_column(
    path: Path, found: Sequence[str], wanted: str | None, guesses: Sequence[str], kind: str
) -> str:
    names = [wanted] if wanted is not None else guesses
    spelled = found if wanted is not None else [name.casefold() for name in found]
    fitting = [name for name, spelling in zip(found, spelled, strict=True) if spelling in names]
    if len(fitting) == 1:
        return fitting[0]
    shown = ", ".join(repr(name if len(name) <= 40 else f"{name[:37]}...") for name in found)
    fault = f"{len(fitting)} columns" if fitting else "no column"
    advice = "name each once" if wanted and fitting else f"choose one with --{kind}-column"
    raise TableError(path, f"{fault} named {' or '.join(map(repr, names))} among {shown}: {advice}")


_TEXT_READERS: dict[str, Callable[[Path, str, Columns], Iterator[Row]]] = {
    ".tsv": _read_tsv,
    ".csv": _read_csv,
    ".jsonl": _read_json_lines,
    ".ndjson": _read_json_lines,
}
