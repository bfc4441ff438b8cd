"""Writes parts; the same rows give the same bytes."""

import io
from collections.abc import Iterator
from typing import Any

import pyarrow

from model.tables.values import MISSING, to_json
from model.tables.writing import Target, Values, open_table
from model.types import SentenceResult
from scoring.columns import join_answers, to_cell
from scoring.manifest import Manifest, Source, added_columns
from scoring.scorer import Answers, Model

#: key of a Parquet part's metadata that holds the job's id
JOB = "headlight_job"
#: errors of values that a part cannot hold
UNWRITABLE = (TypeError, ValueError, OverflowError, pyarrow.ArrowException)


def part_bytes(manifest: Manifest, source: Source, values: Values, answers: Answers) -> bytes:
    """Writes a part of N rows: the values of the kept columns [N], and the answers [N]."""
    typed = "parquet" in (manifest.output_format, source.format)
    rows = join_answers(values, manifest.columns, _added(manifest, answers), typed=typed)
    if typed:
        target = Target("", "parquet", None)
        schema = rows.schema.with_metadata({JOB: manifest.job})
    else:
        copied = 0 if source.compression == "xlsx" else len(manifest.columns)
        target = Target("", source.format, source.compression, copied=copied)
        names = [
            *(column.output_name for column in manifest.columns),
            *added_columns(manifest.model),
        ]
        schema = pyarrow.schema([(name, pyarrow.null()) for name in names])
    output = io.BytesIO()
    with open_table(target, schema, delimiter=source.delimiter, file=output) as table:
        table.write(rows)
    return output.getvalue()


def unwritable(manifest: Manifest, values: Values) -> dict[int, str]:
    """Returns why the values of rows cannot be written, by their indices."""
    found: dict[int, str] = {}
    for index, row in enumerate([] if isinstance(values, pyarrow.Table) else values):
        for column, value in zip(manifest.columns, row, strict=True):
            try:
                cell = to_cell(value, column)
                to_json([cell, None if value is MISSING else value])
                pyarrow.array([cell], column.kind)
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
    return pyarrow.table(columns, list(added_columns(manifest.model)))


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
