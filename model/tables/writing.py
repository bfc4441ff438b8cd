"""Writes one table in any form, row by row; it is there whole or not at all."""

import bz2
import csv
import gzip
import io
import json
import re
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from math import isfinite
from pathlib import Path
from types import SimpleNamespace
from typing import Any, BinaryIO, TypeAlias, Union, cast

import orjson
import pyarrow
from filelock import Timeout
from pyarrow import parquet

from model.atomic import replacing
from model.cli.progress import standard_output
from model.errors import TableError
from model.tables.files import Compression, Format
from model.tables.lines import reason
from model.tables.values import MISSING, to_json

STANDARD_OUTPUT = "-"
_NANOSECONDS = {"s": 10**9, "ms": 10**6, "us": 10**3, "ns": 1}
# What spreadsheets compute, behind what some of them leave out, unless it is a number.
_FORMULA = re.compile(r"[\0-\x20\"\s\ufeff]*[=+\-@\uff0b\uff0d\uff1d\uff20]")
_NUMBER = re.compile(r"[+-]?(?:[0-9]+(?:[.,][0-9]+)*|[.,][0-9]+)(?:[eE][+-]?[0-9]+)?%?")
_NO_FRACTION = re.compile(r"\.0+(?![0-9])")
_OFFSET = re.compile(r"([+-][0-9]{2})([0-9]{2})$")

Values: TypeAlias = Any  # a list for each row, or a pyarrow.Table


@dataclass(frozen=True, slots=True)
class Target:
    """Where a table is written: its path, or `-`, and its form; the others as in `replacing`."""

    path: str
    format: Format
    compression: Compression | None
    overwrite: bool = True
    like: Sequence[Path] = ()
    copied: int = 0  # how many first columns are as a file of the same form spells them

    @property
    def is_array(self) -> bool:
        """Whether it is one JSON array."""
        return self.format == "jsonl" and ".json" in Path(self.path.lower()).suffixes


Rows = Union["_DelimitedRows", "_JsonRows", "_ParquetRows"]


@contextmanager
def open_table(
    target: Target,
    schema: Any,  # noqa: ANN401
    *,
    delimiter: str = ",",
    file: BinaryIO | None = None,
) -> Iterator[Rows]:
    """Opens a table to write; a file is put in its place at the end, if nothing failed.

    `schema` has the names of the columns, and their types in Parquet. `file` takes the bytes in
    place of the path; TSV may then hold a carriage return. TableError: it cannot be written.
    """
    try:
        with ExitStack() as stack:
            breaks = "\t\n" if file else "\t\r\n"
            opened = file or stack.enter_context(_destination(target))
            packed = stack.enter_context(_packed(opened, target.compression))
            rows: Rows
            if target.format == "parquet":
                rows = _ParquetRows(packed, schema)
                # One that is not closed would write its footer later, when the file is closed.
                stack.callback(setattr, rows.writer, "is_open", False)
            elif target.format == "jsonl":
                rows = _JsonRows(packed, schema.names, is_array=target.is_array)
            else:
                rows = _DelimitedRows(packed, schema.names, target, delimiter, breaks)
            yield rows
            rows.close()
    except OSError as error:
        raise TableError(target.path, f"cannot be written: {reason(error)}") from error


@contextmanager
def _destination(target: Target) -> Iterator[BinaryIO]:
    if target.path == STANDARD_OUTPUT:
        with standard_output() as output:
            yield output.buffer
            output.flush()
        return
    is_new = not target.overwrite
    try:
        with replacing(Path(target.path), exclusive=is_new, wait=False, like=target.like) as file:
            yield file
    except (FileExistsError, Timeout) as error:
        fault = "is there by now, and stays: nothing is written; name another file"
        if isinstance(error, Timeout):
            fault = "another command is writing it: wait for it, or name another file"
        raise TableError(target.path, fault) from error


@contextmanager
def _packed(file: BinaryIO, compression: Compression | None) -> Iterator[BinaryIO]:
    opened: Any = file
    if compression == "gzip":
        opened = gzip.GzipFile(filename="", mode="wb", fileobj=file, mtime=0)
    elif compression == "bz2":
        opened = bz2.BZ2File(file, "wb")
    elif compression == "zstd":
        # pyarrow would close the file too early.
        kept = SimpleNamespace(write=file.write, flush=file.flush, close=lambda: None, closed=False)
        opened = pyarrow.CompressedOutputStream(pyarrow.PythonFile(kept, "w"), "zstd")
    yield opened
    if opened is not file:
        opened.close()


class _DelimitedRows:
    """Writes CSV or TSV."""

    def __init__(
        self, file: BinaryIO, names: Sequence[str], target: Target, delimiter: str, breaks: str
    ) -> None:
        self._file = file
        self._breaks = set(breaks)
        self._target = target
        self._delimiter = delimiter
        self.write([names])

    def write(self, values: Values) -> None:
        count = self._target.copied
        rows = [[*map(_spell, row[:count]), *map(_safe, row[count:])] for row in _lists(values)]
        if self._target.format == "tsv":
            if any(self._breaks.intersection(cell) for row in rows for cell in row):
                raise TableError(
                    self._target.path,
                    "TSV cannot hold a value with a tab or a line break: name a .csv",
                )
            self._file.write("".join("\t".join(row) + "\n" for row in rows).encode())
            return
        output = io.StringIO(newline="")
        plain, quoted = (
            csv.writer(output, delimiter=self._delimiter, lineterminator="\n", quoting=quoting)
            for quoting in (csv.QUOTE_MINIMAL, csv.QUOTE_ALL)
        )
        for row in rows:  # a carriage return is quoted only where all is
            (quoted if "\r" in "".join(row) else plain).writerow(row)
        self._file.write(output.getvalue().encode(errors="backslashreplace"))

    def close(self) -> None:
        """Adds nothing."""


class _JsonRows:
    """Writes an object for each row, on a line of its own."""

    def __init__(self, file: BinaryIO, names: Sequence[str], *, is_array: bool) -> None:
        self._file = file
        self._names = names
        self._is_array = is_array
        self._between = b""
        if is_array:
            file.write(b"[\n")

    def write(self, values: Values) -> None:
        for row in _lists(values):
            kept = {
                name: orjson.Fragment(to_json(value))
                for name, value in zip(self._names, row, strict=True)
                if value is not MISSING
            }
            self._file.write(self._between + orjson.dumps(kept))
            self._between = b",\n" if self._is_array else b"\n"

    def close(self) -> None:
        """Ends the last line, and the array."""
        end = b"\n" if self._between else b""
        self._file.write(end + b"]\n" if self._is_array else end)


class _ParquetRows:
    """Writes Parquet."""

    def __init__(self, file: BinaryIO, schema: Any) -> None:  # noqa: ANN401
        self._schema = schema
        self.writer = parquet.ParquetWriter(file, schema, compression="zstd")

    def write(self, values: Values) -> None:
        if isinstance(values, pyarrow.Table):
            columns = values.columns
        else:
            columns = [
                pyarrow.array([row[index] for row in values], kind)
                for index, kind in enumerate(self._schema.types)
            ]
        self.writer.write_table(pyarrow.table(columns, schema=self._schema))

    def close(self) -> None:
        """Writes the footer."""
        self.writer.close()


def _lists(values: Values) -> Sequence[Sequence[object]]:
    if not isinstance(values, pyarrow.Table):
        return cast(Sequence[Sequence[object]], values)
    columns = [list(map(_plain, column)) for column in values.columns]
    return list(zip(*columns, strict=True)) if columns else [()] * values.num_rows


def _plain(value: Any) -> object:  # noqa: ANN401
    """Returns a scalar of pyarrow as JSON has it; what it lacks, such as a date, as its text."""
    kind, types = value.type, pyarrow.types
    if not value.is_valid:
        return None
    is_extended = isinstance(kind, pyarrow.BaseExtensionType)
    if types.is_dictionary(kind) or (is_extended and types.is_nested(kind.storage_type)):
        return _plain(value.value)
    if types.is_struct(kind):
        return {name: _plain(each) for name, each in value.items()}
    if types.is_map(kind):
        return [[_plain(each) for each in pair.values()] for pair in value.values]
    if types.is_nested(kind):
        return list(map(_plain, value.values))
    if types.is_temporal(kind):
        return _text_of_time(value)
    plain = value.as_py()
    if isinstance(plain, bytes):
        return plain.decode(errors="backslashreplace")
    return plain if isinstance(plain, str | int | float | bool | None) else str(plain)


def _text_of_time(value: Any) -> str:  # noqa: ANN401
    """Returns all digits of a time; Python has none of nanoseconds, or beyond the year 9999."""
    kind, days = value.type, ""
    if pyarrow.types.is_duration(kind):
        number, rest = divmod(value.value * _NANOSECONDS[kind.unit], 86_400 * _NANOSECONDS["s"])
        days, value = f"{number} days ", pyarrow.scalar(rest, pyarrow.time64("ns"))
    try:
        text = value.cast(pyarrow.string()).as_py()
    except pyarrow.ArrowInvalid:  # the time zone is not known
        text = value.cast(pyarrow.timestamp(kind.unit, "UTC")).cast(pyarrow.string()).as_py()
    text = _NO_FRACTION.sub("", text).replace("Z", "+00:00")
    return days + _OFFSET.sub(r"\1:\2", text)


def _spell(value: object) -> str:
    if isinstance(value, str):
        return value
    if isinstance(value, float):
        return float.__repr__(value) if isfinite(value) else json.dumps(value)
    return "" if value is None or value is MISSING else to_json(value).decode()


def _safe(value: object) -> str:
    """Spells a value so that no spreadsheet computes it."""
    cell = _spell(value)
    is_text = isinstance(value, str) and _FORMULA.match(cell)
    return f"'{cell}" if is_text and not _NUMBER.fullmatch(cell) else cell
