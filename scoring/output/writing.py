"""Writes the bytes of a part: Parquet, or the form of the input; the same rows give the same bytes.

Legend: N rows.
"""

import csv
import gzip
import io
from collections.abc import Iterator, Sequence
from typing import Any

import orjson
import pyarrow
from pyarrow import parquet

from model.reading import SentenceResult
from scoring.answers import Answers
from scoring.inputs import suffix_of
from scoring.output.manifest import Column, Manifest, Model, Source
from scoring.reading import MISSING

_TYPES = {
    "string": pyarrow.string(),
    "integer": pyarrow.int64(),
    "number": pyarrow.float64(),
    "boolean": pyarrow.bool_(),
    "json": pyarrow.string(),
}


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
    """Writes a part.

    Args:
        manifest: the job.
        source: of the rows.
        values: of the kept columns, as `UnitRows` has them [N].
        answers: for the same rows [N], none refused.
    """
    if "parquet" in (manifest.output_format, source.format):
        return _parquet(manifest, values, answers)
    added = _added_rows(manifest, answers)
    if source.format == "jsonl":
        content = _json_lines(manifest, values, added)
    elif source.format == "csv":
        content = _csv(manifest, values, added)
    else:
        content = _tsv(manifest, values, added)
    if source.compression == "gzip":
        return gzip.compress(content, mtime=0)
    if source.compression == "zstd":
        packed: bytes = pyarrow.Codec("zstd").compress(content, asbytes=True)
        return packed
    return content


def _parquet(manifest: Manifest, values: Any, answers: Answers) -> bytes:  # noqa: ANN401
    if isinstance(values, pyarrow.Table):
        kept = list(values.columns)
    else:
        kept = [
            pyarrow.array([_cell(row[place], column) for row in values], _TYPES[column.type or ""])
            for place, column in enumerate(manifest.columns)
        ]
    count = len(answers.label_ids)
    labels = pyarrow.array(manifest.model.labels, pyarrow.string())
    added = [
        labels.take(pyarrow.array(answers.label_ids)),
        pyarrow.array(answers.scores),
        *(pyarrow.array(column) for column in answers.probabilities.T.copy()),
        pyarrow.array(answers.token_counts),
        pyarrow.array(answers.truncated),
        *_more_columns(manifest.model, answers),
        pyarrow.array([manifest.model.version] * count, pyarrow.string()),
    ]
    names = [*(column.output_name for column in manifest.columns), *manifest.added_columns]
    sink = pyarrow.BufferOutputStream()
    parquet.write_table(pyarrow.table([*kept, *added], names), sink, compression="zstd")
    content: bytes = sink.getvalue().to_pybytes()
    return content


def _cell(value: object, column: Column) -> object:
    """Returns a value of JSON Lines as its column takes it."""
    if value is None or value is MISSING:
        return None
    return orjson.dumps(value).decode() if column.type == "json" else value


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
    found = answer.prediction
    shares = {f"probability_{label}": share for label, share in found.probabilities.items()}
    return {
        "start": answer.span.start,
        "end": answer.span.end,
        "label": found.label,
        "score": found.score,
        **shares,
        "token_count": found.token_count,
        "truncated": found.truncated,
    }


def _added_rows(manifest: Manifest, answers: Answers) -> Iterator[dict[str, object]]:
    """Yields what the answers add to each row."""
    model = manifest.model
    for label_id, score, probabilities, tokens, truncated, windows, sentences in zip(
        answers.label_ids.tolist(),
        answers.scores.tolist(),
        answers.probabilities.tolist(),
        answers.token_counts.tolist(),
        answers.truncated.tolist(),
        answers.windows.tolist(),
        answers.sentences,
        strict=True,
    ):
        values = [model.labels[label_id], score, *probabilities, tokens, truncated]
        if model.truncation == "window":
            values.append(windows)
        if model.granularity == "sentence":
            values.append(list(map(_sentence, sentences)))
        yield dict(zip(manifest.added_columns, [*values, model.version], strict=True))


def _json_lines(
    manifest: Manifest, values: Sequence[Sequence[object]], added: Iterator[dict[str, object]]
) -> bytes:
    names = [column.output_name for column in manifest.columns]
    lines = []
    for row, answer in zip(values, added, strict=True):
        kept = {name: value for name, value in zip(names, row, strict=True) if value is not MISSING}
        lines.append(orjson.dumps({**kept, **answer}, option=orjson.OPT_APPEND_NEWLINE))
    return b"".join(lines)


def _csv(
    manifest: Manifest, values: Sequence[Sequence[object]], added: Iterator[dict[str, object]]
) -> bytes:
    output = io.StringIO(newline="")
    writer = csv.writer(output, lineterminator="\n")
    writer.writerow(_header(manifest))
    for row, answer in zip(values, added, strict=True):
        writer.writerow([*row, *map(_spell, answer.values())])
    return output.getvalue().encode()


def _tsv(
    manifest: Manifest, values: Sequence[Sequence[object]], added: Iterator[dict[str, object]]
) -> bytes:
    lines = ["\t".join(_header(manifest))]
    lines += [
        "\t".join([*map(str, row), *map(_spell, answer.values())])
        for row, answer in zip(values, added, strict=True)
    ]
    return ("\n".join(lines) + "\n").encode()


def _header(manifest: Manifest) -> list[str]:
    return [*(column.output_name for column in manifest.columns), *manifest.added_columns]


def _spell(value: object) -> str:
    if isinstance(value, list):  # of sentences; JSON in one line has neither tabs nor line breaks
        return orjson.dumps(value).decode()
    return str(value).lower() if isinstance(value, bool) else str(value)
