"""Writes one table in any form, row by row; it is there whole or not at all."""

import bz2
import csv
import gzip
import io
import os
import secrets
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO, Protocol, TypeAlias, cast

import orjson
import pyarrow
from pyarrow import parquet

from model.tables.files import Compression, Format, format_of
from model.tables.lines import reason
from model.tables.values import to_json
from scoring.errors import OptionError, OutputError
from scoring.output.manifest import Column
from scoring.output.writing import TYPES, cell_of
from scoring.reading import MISSING

STANDARD_OUTPUT = "-"
_NOT_WRITTEN = (".xlsx", ".zip")


Arrow: TypeAlias = Any
#: a list for each row, or a pyarrow.Table
Values: TypeAlias = Any


@dataclass(frozen=True, slots=True)
class Target:
    """Where a table is written: its path, or `-`, and its form."""

    path: str
    format: Format
    compression: Compression | None

    @property
    def is_array(self) -> bool:
        """Whether it is one JSON array."""
        return self.format == "jsonl" and ".json" in Path(self.path.lower()).suffixes


class Rows(Protocol):
    """Writes rows: their kept values, labels and scores, None where a row has none."""

    def write(
        self, values: Values, labels: Sequence[str | None], scores: Sequence[float | None]
    ) -> None:
        """Writes the next rows."""

    def close(self) -> None:
        """Ends the table."""


def choose_target(source: str, output: str | None, source_format: Format) -> Target:
    """Chooses where the answers of a file go, and in what form.

    Args:
        output: the path that the user names, `-`, or None: `.scored` comes before the suffix.

    Raises:
        OptionError: the form is not written.
    """
    if output == STANDARD_OUTPUT:
        if source_format == "parquet" and sys.stdout.isatty():
            raise OptionError("--output -: Parquet is not for a terminal: name a file")
        return Target(output, source_format, None)
    if output is None:
        source_path = Path(source)
        form = format_of(source.removesuffix(".zip"))
        if source.lower().endswith(_NOT_WRITTEN):
            stem = source_path.name[: -len(source_path.suffix)]
            stem = Path(stem).stem if form and source.lower().endswith(".zip") else stem
            return Target(str(source_path.with_name(f"{stem}.scored.csv")), "csv", None)
        ends = "".join(source_path.suffixes[-2:] if form and form[1] else source_path.suffixes[-1:])
        output = str(source_path.with_name(f"{source_path.name.removesuffix(ends)}.scored{ends}"))
    form = format_of(output)
    if form is None or output.lower().endswith(_NOT_WRITTEN):
        raise OptionError(f"--output {output}: this form is not written: name a .csv")
    return Target(output, *form)


def check_target(target: Target, source: str, *, overwrite: bool) -> None:
    """Raises OptionError or OutputError for a target that cannot be written."""
    path = Path(target.path)
    if target.path == STANDARD_OUTPUT:
        return
    if path.exists() and path.samefile(source):
        raise OptionError(f"--output {path}: is the input: name another file")
    if path.exists() and not overwrite:
        raise OutputError(
            target.path, "is there already: replace it with --overwrite, or name another --output"
        )
    if not path.parent.is_dir():
        raise OutputError(target.path, f"the folder {path.parent} does not exist: make it first")


@contextmanager
def open_table(
    target: Target, columns: Sequence[Column], *, delimiter: str, schema: Arrow = None
) -> Iterator[Rows]:
    """Opens a table to write; a file is put in its place at the end, if nothing failed.

    Args:
        delimiter: of CSV.
        schema: of the kept columns if they are those of a Parquet file.

    Raises:
        OutputError: it cannot be written, or standard output is closed.
    """
    try:
        with ExitStack() as stack:
            file = stack.enter_context(_destination(target))
            packed = stack.enter_context(_packed(file, target.compression))
            rows = _rows(packed, target, columns, delimiter, schema)
            yield rows
            rows.close()
    except OSError as error:
        if isinstance(error, BrokenPipeError):
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        raise OutputError(target.path, f"cannot be written: {reason(error)}") from error


@contextmanager
def _destination(target: Target) -> Iterator[BinaryIO]:
    if target.path == STANDARD_OUTPUT:
        yield sys.stdout.buffer
        sys.stdout.buffer.flush()
        return
    path = Path(target.path)
    fresh = path.with_name(f".{path.name}.{secrets.token_hex(8)}.tmp")
    try:
        with fresh.open("xb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        fresh.replace(path)
    finally:
        fresh.unlink(missing_ok=True)


@contextmanager
def _packed(file: BinaryIO, compression: Compression | None) -> Iterator[BinaryIO]:
    opened: Any = file
    if compression == "gzip":
        opened = gzip.GzipFile(filename="", mode="wb", fileobj=file, mtime=0)
    elif compression == "bz2":
        opened = bz2.BZ2File(file, "wb")
    elif compression == "zstd":
        opened = pyarrow.CompressedOutputStream(pyarrow.PythonFile(_KeptOpen(file), "w"), "zstd")
    yield opened
    if opened is not file:
        opened.close()


class _KeptOpen:
    """Passes bytes on to a file; pyarrow would close it too early."""

    closed = False

    def __init__(self, file: BinaryIO) -> None:
        self.write = file.write
        self.flush = file.flush

    def close(self) -> None:
        """Does nothing."""


def _rows(
    file: BinaryIO, target: Target, columns: Sequence[Column], delimiter: str, schema: Arrow
) -> Rows:
    if target.format == "parquet":
        return _ParquetRows(file, columns, schema)
    if target.format == "jsonl":
        return _JsonRows(file, columns, is_array=target.is_array)
    return _DelimitedRows(file, columns, target, delimiter)


class _DelimitedRows:
    """Writes CSV or TSV."""

    def __init__(
        self, file: BinaryIO, columns: Sequence[Column], target: Target, delimiter: str
    ) -> None:
        self._file = file
        self._target = target
        self._delimiter = delimiter
        self._add([[*(column.output_name for column in columns), "label", "score"]])

    def write(
        self, values: Values, labels: Sequence[str | None], scores: Sequence[float | None]
    ) -> None:
        rows = zip(_lists(values), labels, scores, strict=True)
        self._add([[*map(_spell, row), label or "", _spell(score)] for row, label, score in rows])

    def close(self) -> None:
        """Adds nothing."""

    def _add(self, rows: Sequence[Sequence[str]]) -> None:
        if self._target.format == "tsv":
            if any(set("\t\r\n").intersection(cell) for row in rows for cell in row):
                raise OutputError(
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
            (quoted if any("\r" in cell for cell in row) else plain).writerow(row)
        self._file.write(output.getvalue().encode(errors="backslashreplace"))


class _JsonRows:
    """Writes an object for each row, on a line of its own."""

    def __init__(self, file: BinaryIO, columns: Sequence[Column], *, is_array: bool) -> None:
        self._file = file
        self._names = [column.output_name for column in columns]
        self._is_array = is_array
        self._between = b""
        if is_array:
            file.write(b"[\n")

    def write(
        self, values: Values, labels: Sequence[str | None], scores: Sequence[float | None]
    ) -> None:
        for row, label, score in zip(_lists(values), labels, scores, strict=True):
            kept = {
                name: orjson.Fragment(to_json(value))
                for name, value in zip(self._names, row, strict=True)
                if value is not MISSING
            }
            self._file.write(self._between + orjson.dumps({**kept, "label": label, "score": score}))
            self._between = b",\n" if self._is_array else b"\n"

    def close(self) -> None:
        """Ends the last line, and the array."""
        end = b"\n" if self._between else b""
        self._file.write(end + b"]\n" if self._is_array else end)


class _ParquetRows:
    """Writes Parquet."""

    def __init__(self, file: BinaryIO, columns: Sequence[Column], schema: Arrow) -> None:
        self._columns = columns
        kinds = [
            TYPES[column.type or "json"] if schema is None else schema.field(column.name).type
            for column in columns
        ]
        names = [column.output_name for column in columns]
        added = [("label", pyarrow.string()), ("score", pyarrow.float64())]
        self._schema = pyarrow.schema([*zip(names, kinds, strict=True), *added])
        self._writer = parquet.ParquetWriter(file, self._schema, compression="zstd")

    def write(
        self, values: Values, labels: Sequence[str | None], scores: Sequence[float | None]
    ) -> None:
        if isinstance(values, pyarrow.Table):
            kept = list(values.columns)
        else:
            kept = [
                pyarrow.array(
                    [cell_of(row[index], column) for row in values], self._schema.types[index]
                )
                for index, column in enumerate(self._columns)
            ]
        added = [pyarrow.array(labels, pyarrow.string()), pyarrow.array(scores, pyarrow.float64())]
        self._writer.write_table(pyarrow.table([*kept, *added], schema=self._schema))

    def close(self) -> None:
        """Writes the footer."""
        self._writer.close()


def _lists(values: Values) -> Sequence[Sequence[object]]:
    if not isinstance(values, pyarrow.Table):
        return cast(Sequence[Sequence[object]], values)
    columns = [[_plain(value) for value in column.to_pylist()] for column in values.columns]
    return list(zip(*columns, strict=True)) if columns else [()] * values.num_rows


def _plain(value: object) -> object:
    """Returns a value of Parquet as JSON has it; what it lacks, such as a date, as its text."""
    if value is None or isinstance(value, str | int | float | bool):
        return value
    if isinstance(value, bytes):
        return value.decode(errors="backslashreplace")
    if isinstance(value, list | tuple):
        return [_plain(each) for each in value]
    if isinstance(value, Mapping):
        return {str(name): _plain(each) for name, each in value.items()}
    return str(value)


def _spell(value: object) -> str:
    if value is None or value is MISSING:
        return ""
    return value if isinstance(value, str) else to_json(value).decode()
