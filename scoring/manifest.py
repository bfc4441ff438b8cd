"""Describes a job: divides its inputs into units of work, with the model and the columns.

The manifest is written once, before the first unit, and never changes. It is the same for the same
inputs, options and model, whatever the engine and the number of workers. A worker needs the
manifest, the number of a unit and the checkpoint, nothing else.
"""

from argparse import Namespace
from collections import Counter
from collections.abc import Sequence
from contextlib import closing
from functools import cached_property
from hashlib import sha256
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field

from model.errors import TableError
from model.tables.columns import Columns, show
from model.tables.files import Compression, Format, suffix_of
from model.tables.parquet import ParquetTable
from model.tables.pieces import Piece, Scan, TableFile
from model.tables.table import open_table
from scoring.columns import Column, choose_columns, scan_table, spelling_of
from scoring.inputs import InputFile
from scoring.scorer import Model

PART_BYTES = 8 * 1024 * 1024

OutputFormat = Literal["parquet", "input"]


class _Part(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", strict=False)


class Source(_Part):
    """One input file; `modified` is in nanoseconds since 1970.

    `compression` is None also for Parquet, which compresses itself. `sha256` is the digest of the
    unpacked bytes, in Parquet of the footer. JSON Lines have no `header`; `rows` leaves it out.
    `delimiter` is that of CSV; `encoding` is the one that the user names, None for the file's own;
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

    @property
    def added_columns(self) -> tuple[str, ...]:
        """Names of the columns that the answers add, in their order."""
        return added_columns(self.model)

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
        truncated: how many texts were cut off.
        labels: how many rows have each label.
        part: file name.
        size: bytes of the part.
        sha256: digest of the part.
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
        TableError: a file cannot be read, or its columns do not fit those of the first one.
        ScoringError: two columns of the output would have one name.
    """
    spelling = spelling_of(options)
    tables = [file.table for file in files]
    scans = []
    for file in tables:
        with closing(open_table(file, spelling)) as table:
            scans.append(scan_table(table, spelling, options.part_bytes))
    text, kept = choose_columns(
        tables[0], scans, spelling=spelling, wanted=options.columns, added=added_columns(model)
    )
    used = [text, *(column.name for column in kept)]
    units: list[Unit] = []
    for index, (file, scan) in enumerate(zip(tables, scans, strict=True)):
        _check_columns(file, scan, text, kept, first=(tables[0], scans[0]))
        for piece in _with_digests(file, scan.pieces, used):
            units.append(Unit(number=len(units), source=index, **dict(piece)))
    return Manifest(
        sources=tuple(_source(*each, spelling) for each in zip(files, scans, strict=True)),
        units=tuple(units),
        text_column=text,
        columns=kept,
        output_format=options.output_format,
        part_bytes=options.part_bytes,
        model=model,
    )


def digest(file: InputFile, source: Source) -> str:
    """Reads a file through as before, and returns the digest that `Source.sha256` holds."""
    spelling = Columns(
        text=source.header[0] if source.header else None,
        delimiter=source.delimiter,
        encoding=source.encoding,
        header=not source.no_header,
    )
    with closing(open_table(file.table, spelling)) as table:
        return table.scan(PART_BYTES).sha256


def _source(file: InputFile, scan: Scan, spelling: Columns) -> Source:
    table = file.table
    return Source(
        path=file.path,
        format=table.format,
        compression=table.compression,
        size=file.status.size,
        modified=file.status.modified,
        sha256=scan.sha256,
        header=() if table.format == "jsonl" else scan.names,
        rows=scan.rows,
        delimiter=scan.delimiter,
        encoding=None if table.format == "parquet" else spelling.encoding,
        no_header=table.format != "parquet" and not spelling.header,
    )


def _check_columns(
    file: TableFile,
    scan: Scan,
    text: str,
    kept: Sequence[Column],
    *,
    first: tuple[TableFile, Scan],
) -> None:
    """Rejects a file whose columns differ from those of the first one."""
    formats = {file.format, first[0].format}
    counts = Counter(scan.names)
    if len(formats) > 1 and formats != {"csv", "tsv"}:
        raise TableError(
            file.path, f"is {file.format}, {first[0].path} is {first[0].format}: score them apart"
        )
    if file.format == "jsonl":
        return  # a row without a key is judged by itself
    wide = {column.name for column in kept if column.wide is not None}
    for name in (text, *(column.name for column in kept)):
        if counts[name] != 1:
            raise TableError(
                file.path,
                f"{'two columns are' if counts[name] else 'no column is'} named {name!r} "
                f"among {show(scan.names)}, unlike in {first[0].path}: score them apart, or "
                "choose with --columns what both have",
            )
        types = [next(iter(each.types.get(name, {""}))) for each in (scan, first[1])]
        if name not in wide and types[0] != types[1]:
            raise TableError(
                file.path,
                f"the column {name!r} is {types[0]}, in {first[0].path} it is {types[1]}: score "
                "them apart, or leave it out with --columns",
            )


def _with_digests(file: TableFile, pieces: Sequence[Piece], used: Sequence[str]) -> Sequence[Piece]:
    """Adds to the pieces of a Parquet file the digests of the columns that are used."""
    if file.format != "parquet":
        return pieces
    with closing(ParquetTable(file)) as table:
        groups = {piece.row_group for piece in pieces if piece.row_group is not None}
        digests = {group: table.digest(used, row_group=group) for group in groups}
    return [
        piece.model_copy(update={"sha256": digests[piece.row_group]})
        for piece in pieces
        if piece.row_group is not None
    ]
