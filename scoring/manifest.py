"""Describes a job: divides its inputs into units of work, with the model and the columns.

The manifest is written once, before the first unit, and never changes. It is the same for the same
inputs, options and model, whatever the engine and the number of workers. A worker needs the
manifest, the number of a unit and the checkpoint, nothing else.
"""

from argparse import Namespace
from collections.abc import Sequence
from contextlib import closing
from functools import cached_property
from hashlib import sha256
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field

from model.tables.columns import Columns
from model.tables.files import Compression, Format, suffix_of
from model.tables.parquet import ParquetTable
from model.tables.pieces import Piece, Scan, TableFile
from model.tables.table import TextTable, open_table
from scoring.columns import Column, choose_columns, scan_table, spelling_of
from scoring.inputs import InputFile
from scoring.scorer import Model

OutputFormat = Literal["parquet", "input"]


class _Part(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", strict=False)


class Source(_Part):
    """One input file; `modified` is in nanoseconds since 1970.

    `compression` is None also for Parquet, which compresses itself. `sha256` is the digest of the
    unpacked bytes, in Parquet of the footer. JSON Lines have no `header`; `rows` leaves it out.
    `delimiter` is that of CSV; `encoding` and `sheet` are those that the user names, if any;
    `no_header` says that its first line is a row.
    """

    path: str
    format: Format
    compression: Compression | None
    size: int
    modified: int
    sha256: str
    header: tuple[str, ...]
    rows: int
    delimiter: str = ","
    encoding: str | None = None
    sheet: str | None = None
    no_header: bool = False


class Unit(Piece):
    """One piece of work, which ends in one part.

    Args:
        number: index in the order of the input; names the part.
        source: index of its file among the sources.
    """

    number: int
    source: int


class Manifest(_Part):
    """A whole job.

    Args:
        columns: columns that the output keeps, in its order.
        output_format: `parquet`, or `input` for the form of each input.
        part_bytes: about how many bytes of text a unit has.
    """

    format_version: Annotated[int, Field(ge=1, le=1)] = 1
    sources: tuple[Source, ...]
    units: tuple[Unit, ...]
    text_column: str
    columns: tuple[Column, ...]
    output_format: OutputFormat
    part_bytes: int
    model: Model

    @cached_property
    def job(self) -> str:
        """The job's id: 16 hex digits, the same for the same inputs, options and model."""
        sources = {"sources": {"__all__": {"modified"}}}
        return sha256(self.model_dump_json(exclude=sources).encode()).hexdigest()[:16]

    def part_name(self, number: int) -> str:
        """Names the part of a unit."""
        source = self.sources[self.units[number].source]
        suffix = ".parquet"
        if self.output_format == "input":
            suffix = suffix_of(source.format, source.compression)
        return f"part-{number:05d}{suffix}"


class BadRow(_Part):
    """A row that has no answer; `row` counts as `Unit.first_row`, the reason holds no text."""

    file: str
    row: int
    reason: str


class UnitRecord(_Part):
    """The result of a unit; written before its part.

    Args:
        job: id of the job that wrote the part; empty in records of earlier versions.
        bad: rows that have no answer, in order; `rows_in == rows_out + len(bad)`.
        labels: how many rows have each label.
    """

    number: int
    rows_in: int
    rows_out: int
    bad: tuple[BadRow, ...]
    truncated: int
    tokens: int
    labels: dict[str, int]
    part: str
    size: int
    sha256: str
    job: str = ""


class Success(_Part):
    """The totals of a finished job. It has no times, so that every run writes the same.

    `reasons` counts the bad rows by their reason; the other names are those of `UnitRecord`.
    """

    rows_in: int
    rows_out: int
    bad_rows: int
    reasons: dict[str, int]
    truncated: int
    tokens: int
    labels: dict[str, int]
    parts: int
    bytes: int
    model_version: str


def added_columns(model: Model) -> tuple[str, ...]:
    """Names the columns that the answers add."""
    probabilities = (f"probability_{label}" for label in model.labels)
    windows = ("windows",) if model.truncation == "window" else ()
    sentences = ("sentences",) if model.granularity == "sentence" else ()
    columns = ("label", "score", *probabilities, "token_count", "truncated")
    return (*columns, *windows, *sentences, "model_version")


def make_manifest(files: Sequence[InputFile], options: Namespace, model: Model) -> Manifest:
    """Reads all files through once and divides them.

    Raises:
        TableError: a file cannot be read, or does not fit the others.
        ScoringError: two columns of the output would have one name.
    """
    spelling = spelling_of(options)
    tables = [file.table for file in files]
    scans: list[Scan] = []
    firsts: dict[str, Scan] = {}  # whose columns files of their form have without a header
    for file in files:
        scan = _scan(file, spelling, options.part_bytes, firsts.get(file.table.format))
        if scan.header and not spelling.header:
            firsts.setdefault(file.table.format, scan)
        scans.append(scan)
    text, kept = choose_columns(
        tables, scans, spelling=spelling, wanted=options.columns, added=added_columns(model)
    )
    used = [text, *(column.name for column in kept)]
    sources: list[Source] = []
    units: list[Unit] = []
    for file, scan in zip(files, scans, strict=True):
        digests = _digests(file.table, scan, used)
        for piece in scan.pieces:
            known = {**dict(piece), "sha256": digests.get(piece.row_group, piece.sha256)}
            units.append(Unit(number=len(units), source=len(sources), **known))
        is_text = file.table.format != "parquet"
        source = Source(
            path=file.path,
            format=file.table.format,
            compression=file.table.compression,
            size=file.status.size,
            modified=file.status.modified,
            sha256=scan.sha256,
            header=scan.header,
            rows=scan.rows,
            delimiter=scan.delimiter,
            encoding=spelling.encoding if is_text else None,
            sheet=spelling.sheet if is_text else None,
            no_header=is_text and not spelling.header,
        )
        sources.append(source)
    return Manifest(
        sources=tuple(sources),
        units=tuple(units),
        text_column=text,
        columns=kept,
        output_format=options.output_format,
        part_bytes=options.part_bytes,
        model=model,
    )


def digest(file: InputFile, source: Source) -> str:
    """Reads a file through as before, and returns the digest that `Source.sha256` holds."""
    spelling = Columns(encoding=source.encoding, sheet=source.sheet)
    known = Scan(header=source.header, delimiter=source.delimiter)
    return _scan(file, spelling, source.size + 1, known).sha256


def _scan(file: InputFile, spelling: Columns, size: int, first: Scan | None = None) -> Scan:
    """Reads a file through; an empty one has no columns, whatever its suffix says."""
    if file.status.size == 0:
        return Scan()
    table = open_table(file.table, spelling)
    if first is not None and isinstance(table, TextTable):
        table = TextTable(file.table, spelling, header=first.header, delimiter=first.delimiter)
    with closing(table):
        return scan_table(table, spelling, size)


def _digests(file: TableFile, scan: Scan, used: Sequence[str]) -> dict[int | None, str]:
    """Digests the columns that are used, in each row group of a Parquet file."""
    if file.format != "parquet" or not scan.pieces:
        return {}
    with closing(ParquetTable(file)) as table:
        groups = range(len(table.group_rows))
        return {group: table.digest(used, row_group=group) for group in groups}
