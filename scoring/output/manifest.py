"""Describes a job: its inputs, its units of work, its model and its columns.

The manifest is written once, before the first unit, and never changes. It is the same for the same
inputs, options and model, whatever the engine and the number of workers. A worker needs the
manifest, the number of a unit and the checkpoint, nothing else.
"""

from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field

from model.tokenization.windows import Reading

Format = Literal["csv", "tsv", "jsonl", "parquet"]
#: whether a text is scored only as a whole, or its sentences too
Granularity = Literal["text", "sentence"]
Compression = Literal["gzip", "zstd"]
OutputFormat = Literal["parquet", "input"]
#: of a kept column of JSON Lines; `json` is a value of any type, as JSON text
ColumnType = Literal["string", "integer", "number", "boolean", "json"]


class _Part(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", strict=False)


class Source(_Part):
    """One input file.

    Args:
        path: as it was found: a path or a URL.
        format: how its rows are written.
        compression: of the whole file; None for Parquet, which compresses itself.
        size: bytes of the file.
        modified: when it was last changed, nanoseconds since 1970.
        sha256: of its unpacked bytes; of Parquet, of its footer.
        header: names of its columns; empty for JSON Lines.
        rows: in the file, the header not counted.
    """

    path: str
    format: Format
    compression: Compression | None
    size: int
    modified: int
    sha256: str
    header: tuple[str, ...]
    rows: int


class Unit(_Part):
    """One piece of work, which ends in one part.

    Args:
        number: in the order of the input, from 0; names the part.
        source: place of its file among the sources.
        start: first byte, after unpacking; in Parquet the first row within the row group.
        end: one past the last byte or row.
        row_group: of a Parquet file; None for others.
        first_row: number of its first row as bad rows name it: the line on which it begins, the
            first line of the file being 1; in Parquet the row of the file, from 1.
        rows: how many; checked after reading.
        sha256: of these bytes, checked when they are read; in Parquet of the columns that are
            used, in the whole row group.
    """

    number: int
    source: int
    start: int
    end: int
    row_group: int | None
    first_row: int
    rows: int
    sha256: str


class Column(_Part):
    """A column of the input that the output keeps.

    Args:
        name: in the input.
        output_name: in the output; another name if an added column has this one.
        type: of its values; None in Parquet, which says so itself.
    """

    name: str
    output_name: str
    type: ColumnType | None


class Model(_Part):
    """What answers, and how. A job goes on only with the same model.

    Args:
        name: of the checkpoint.
        version: the first 12 hex digits of the SHA-256 of its weights.
        labels: names of the classes.
        temperature: logits are divided by it.
        max_length: the most tokens of a text.
        device: type of the device.
        dtype: type of the projections.
        truncation: which end of a long text is cut off, `error`, or `window`: it is read whole.
        granularity: whether the sentences of a text are scored too.
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
        format_version: of this file.
        sources: the input files, in their order.
        units: all of them, in the order of the input.
        text_column: name of the column of texts.
        columns: which the output keeps, in the order of the output.
        output_format: `parquet`, or `input` for the form of each input.
        part_bytes: about how many bytes of text a unit has.
        model: what answers.
    """

    format_version: Annotated[int, Field(ge=1, le=1)] = 1
    sources: tuple[Source, ...]
    units: tuple[Unit, ...]
    text_column: str
    columns: tuple[Column, ...]
    output_format: OutputFormat
    part_bytes: int
    model: Model

    @property
    def added_columns(self) -> tuple[str, ...]:
        """Names of the columns that the answers bring, in their order."""
        return added_columns(self.model)


class BadRow(_Part):
    """A row that has no answer.

    Args:
        file: as the source is named.
        row: as `Unit.first_row` counts.
        reason: what is wrong with it, without its text.
    """

    file: str
    row: int
    reason: str


class UnitRecord(_Part):
    """What came of a unit; written before its part.

    Args:
        number: of the unit.
        rows_in: rows read.
        rows_out: rows of the part.
        bad: rows that have no answer, in order; `rows_in == rows_out + len(bad)`.
        truncated: rows of which a part was cut off.
        tokens: that the model read.
        labels: rows of each label.
        part: name of the part's file.
        size: bytes of the part.
        sha256: of the part.
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


class Success(_Part):
    """The totals of a finished job. It has no times, so that every run writes the same.

    Args:
        rows_in: rows read.
        rows_out: rows of all parts.
        bad_rows: rows that have no answer.
        reasons: how many of them for each reason.
        truncated: rows of which a part was cut off.
        tokens: that the model read.
        labels: rows of each label.
        parts: number of parts.
        bytes: of all parts.
        model_version: what answered.
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
    """Names the columns that the answers bring."""
    probabilities = (f"probability_{label}" for label in model.labels)
    windows = ("windows",) if model.truncation == "window" else ()
    sentences = ("sentences",) if model.granularity == "sentence" else ()
    columns = ("label", "score", *probabilities, "token_count", "truncated")
    return (*columns, *windows, *sentences, "model_version")
