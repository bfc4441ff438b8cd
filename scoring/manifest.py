"""Describes a job: its inputs, its units of work, its model and its columns.

The manifest is written once, before the first unit, and never changes. It is the same for the same
inputs, options and model, whatever the engine and the number of workers. A worker needs the
manifest, the number of a unit and the checkpoint, nothing else.
"""

from functools import cached_property
from hashlib import sha256
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field

from model.tables.files import Compression, Format, suffix_of
from model.tables.pieces import Piece
from model.types import Reading

#: whether a text is scored only as a whole, or its sentences too
Granularity = Literal["text", "sentence"]
OutputFormat = Literal["parquet", "input"]
#: of a kept column of JSON Lines; `json` is a value of any type, as JSON text
ColumnType = Literal["string", "integer", "number", "boolean", "json"]


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


class Column(_Part):
    """A column of the input that the output keeps.

    `output_name` differs if an added column has this name. Parquet knows the type itself; `wide` is
    the type there that holds the values of all files, None if they have one type.
    """

    name: str
    output_name: str
    type: ColumnType | None
    wide: str | None = None


class Model(_Part):
    """What answers, and how. A job goes on only with the same model.

    `version` is the first 12 hex digits of the SHA-256 of the weights; `dtype` is the type of the
    projections.
    """

    name: str
    version: str
    labels: tuple[str, ...]
    temperature: float
    max_length: int
    device: str
    dtype: str
    truncation: Reading
    granularity: Granularity = "text"


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
