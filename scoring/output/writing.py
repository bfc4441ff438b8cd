"""Writes a part as Parquet or in the form of its input; the same rows give the same bytes."""

import bz2
import csv
import gzip
import io
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import orjson
import pyarrow
from pyarrow import parquet

from model.tables.files import suffix_of
from model.tables.values import MISSING, to_json
from model.types import SentenceResult
from scoring.answers import Answers
from scoring.output.manifest import Column, Manifest, Model, Source

#: the type in Parquet of each type of a column
TYPES = {
    "string": pyarrow.string(),
    "integer": pyarrow.int64(),
    "number": pyarrow.float64(),
    "boolean": pyarrow.bool_(),
    "json": pyarrow.string(),
}
#: key of a Parquet part's metadata that holds the job's id
JOB = "headlight_job"
#: errors of values that a part cannot hold
UNWRITABLE = (TypeError, ValueError, OverflowError, pyarrow.ArrowException)


def part_name(manifest: Manifest, number: int) -> str:
    """Names the part of a unit."""
    source = manifest.sources[manifest.units[number].source]
    suffix = (
        ".parquet"
        if manifest.output_format == "parquet"
        else suffix_of(source.format, source.compression)
    )
    return f"part-{number:05d}{suffix}"


def part_bytes(manifest: Manifest, source: Source, values: Any, answers: Answers) -> bytes:  # noqa: ANN401
    """Writes a part of N rows: the kept values of `UnitRows` [N] and the answers [N]."""
    added = _added(manifest, answers)
    if "parquet" in (manifest.output_format, source.format):
        return _parquet(manifest, values, added)
    rows = added.to_pylist()
    if source.format == "jsonl":
        content = _json_lines(manifest, values, rows)
    else:
        content = _delimited(manifest, source, values, rows)
    if source.compression == "gzip":
        return gzip.compress(content, mtime=0)
    if source.compression == "bz2":
        return bz2.compress(content)
    if source.compression == "zstd":
        packed: bytes = pyarrow.Codec("zstd").compress(content, asbytes=True)
        return packed
    return content


def unwritable(manifest: Manifest, values: Any) -> dict[int, str]:  # noqa: ANN401
    """Returns why the values of rows cannot be written, by their indices."""
    found: dict[int, str] = {}
    for index, row in enumerate([] if isinstance(values, pyarrow.Table) else values):
        for column, value in zip(manifest.columns, row, strict=True):
            try:
                to_json([cell_of(value, column), None if value is MISSING else value])
                pyarrow.array([cell_of(value, column)], TYPES[column.type or ""])
            except UNWRITABLE:
                found[index] = (
                    f"the column {column.name!r} holds a value that cannot be written, such as "
                    "half of a surrogate pair"
                )
    return found


def _added(manifest: Manifest, answers: Answers) -> Any:  # noqa: ANN401
    """Returns a pyarrow.Table of the columns that the answers add."""
    labels = pyarrow.array(manifest.model.labels, pyarrow.string())
    version = pyarrow.array([manifest.model.version], pyarrow.string())
    columns = [
        labels.take(pyarrow.array(answers.label_ids)),
        pyarrow.array(answers.scores),
        *(pyarrow.array(column) for column in answers.probabilities.T.copy()),
        pyarrow.array(answers.token_counts),
        pyarrow.array(answers.truncated),
        *_more_columns(manifest.model, answers),
        version.take(pyarrow.array([0] * len(answers.label_ids), pyarrow.int32())),
    ]
    return pyarrow.table(columns, list(manifest.added_columns))


def _parquet(manifest: Manifest, values: Any, added: Any) -> bytes:  # noqa: ANN401
    if isinstance(values, pyarrow.Table):
        kept = list(values.columns)
    else:
        kept = [
            pyarrow.array([cell_of(row[index], column) for row in values], TYPES[column.type or ""])
            for index, column in enumerate(manifest.columns)
        ]
    sink = pyarrow.BufferOutputStream()
    table = pyarrow.table([*kept, *added.columns], _names(manifest), metadata={JOB: manifest.job})
    parquet.write_table(table, sink, compression="zstd")
    content: bytes = sink.getvalue().to_pybytes()
    return content


def cell_of(value: object, column: Column) -> object:
    """Returns a value of JSON Lines as its column takes it."""
    if value is None or value is MISSING:
        return None
    return to_json(value).decode() if column.type == "json" else value


def _more_columns(model: Model, answers: Answers) -> Iterator[Any]:
    """Yields the columns that only some jobs have."""
    if model.truncation == "window":
        yield pyarrow.array(answers.windows)
    if model.granularity == "sentence":
        fields = {
            "start": pyarrow.int32(),
            "end": pyarrow.int32(),
            "label": pyarrow.string(),
            "score": pyarrow.float64(),
            **{f"probability_{label}": pyarrow.float64() for label in model.labels},
            "token_count": pyarrow.int32(),
            "truncated": pyarrow.bool_(),
        }
        rows = [list(map(_sentence, sentences)) for sentences in answers.sentences]
        yield pyarrow.array(rows, pyarrow.list_(pyarrow.struct(list(fields.items()))))


def _sentence(answer: SentenceResult) -> dict[str, object]:
    """Returns the fields of a sentence's answer."""
    prediction = answer.prediction
    shares = {f"probability_{label}": share for label, share in prediction.probabilities.items()}
    return {
        "start": answer.span.start,
        "end": answer.span.end,
        "label": prediction.label,
        "score": prediction.score,
        **shares,
        "token_count": prediction.token_count,
        "truncated": prediction.truncated,
    }


def _json_lines(
    manifest: Manifest, values: Sequence[Sequence[object]], added: Sequence[Mapping[str, object]]
) -> bytes:
    names = [column.output_name for column in manifest.columns]
    lines = []
    for row, answer in zip(values, added, strict=True):
        kept = {
            name: orjson.Fragment(to_json(value))
            for name, value in zip(names, row, strict=True)
            if value is not MISSING
        }
        lines.append(orjson.dumps({**kept, **answer}, option=orjson.OPT_APPEND_NEWLINE))
    return b"".join(lines)


def _delimited(
    manifest: Manifest,
    source: Source,
    values: Sequence[Sequence[object]],
    added: Sequence[Mapping[str, object]],
) -> bytes:
    rows = [
        [*map(str, row), *map(_spell, answer.values())]
        for row, answer in zip(values, added, strict=True)
    ]
    if source.format == "tsv":
        return "".join("\t".join(row) + "\n" for row in [_names(manifest), *rows]).encode()
    output = io.StringIO(newline="")
    writer = csv.writer(output, delimiter=source.delimiter, lineterminator="\n")
    writer.writerows([_names(manifest), *rows])
    return output.getvalue().encode()


def _names(manifest: Manifest) -> list[str]:
    return [*(column.output_name for column in manifest.columns), *manifest.added_columns]


def _spell(value: object) -> str:
    if isinstance(value, list):  # of sentences; JSON in one line has neither tabs nor line breaks
        return orjson.dumps(value).decode()
    return str(value).lower() if isinstance(value, bool) else str(value)
