"""Writes the answers of `headlight-train evaluate` to tables: all rows, or the wrong ones."""

import argparse
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow
from numpy.typing import NDArray

from model.tables.files import Format, format_of
from model.tables.writing import Target, open_table
from training.data.dataset import Dataset
from training.errors import DataError
from training.measure.evaluate import Measured

_FORMS = ".csv, .tsv, .jsonl or .parquet"

Columns = Mapping[str, NDArray[Any]]


def targets(arguments: argparse.Namespace) -> Iterator[tuple[str, Path]]:
    """Yields the options that name a table to write, each with its file."""
    for option in ("predictions", "errors"):
        if (path := getattr(arguments, option)) is not None:
            yield f"--{option}", path


def check_targets(arguments: argparse.Namespace) -> None:
    """Refuses a file that is there already, or whose suffix names no form that is written."""
    paths = set()
    for option, path in targets(arguments):
        if _form(path) is None:
            raise DataError(path, f"{option} writes {_FORMS}: change the suffix")
        if path.exists() or path.resolve() in paths:
            raise DataError(path, f"is there already: name another file for {option}")
        paths.add(path.resolve())


def write_answers(
    arguments: argparse.Namespace,
    datasets: Sequence[tuple[str, Dataset]],
    measured: Sequence[Measured],
) -> str:
    """Writes the tables that the options name; returns lines that say so, each ended."""
    lines = ""
    for option, path in targets(arguments):
        columns = _columns(datasets, measured)
        count = len(columns["text"])
        if option == "--errors":
            wrong = np.flatnonzero(columns["label"] != columns["prediction"])
            order = wrong[np.argsort(-columns["score"][wrong], kind="stable")]
            columns = {name: column[order] for name, column in columns.items()}
            lines += f"{len(wrong):,} wrong of {count:,} rows, most certain first: {path}\n"
        else:
            lines += f"{count:,} rows with predictions: {path}\n"
        rows = list(zip(*(column.tolist() for column in columns.values()), strict=True))
        sources = [Path(file) for file in arguments.files]
        target = Target(str(path), _form(path) or "csv", None, overwrite=False, like=sources)
        with open_table(target, _schema(columns)) as table:
            table.write(rows)
    return lines


def _form(path: Path) -> Format | None:
    """Returns the form that a file is written in; None if it is not written."""
    form = format_of(path.name)
    return form[0] if form and form[1] is None else None


def _columns(datasets: Sequence[tuple[str, Dataset]], measured: Sequence[Measured]) -> Columns:
    """Joins the rows of all files: N texts, their labels and C probabilities each."""
    names = datasets[0][1].labels
    labels = np.array(names, dtype=object)
    values = np.concatenate([each.answers.values for each in measured])  # [N, C]
    files = [path for path, dataset in datasets for _ in dataset.texts]
    texts = [text for _, dataset in datasets for text in dataset.texts]
    return {
        **({"file": np.array(files, dtype=object)} if len(datasets) > 1 else {}),
        "text": np.array(texts, dtype=object),
        "label": labels[np.concatenate([each.label_ids for each in measured])],
        "prediction": labels[values.argmax(axis=1)],
        "score": values.max(axis=1),
        **{f"probability_{name}": values[:, number] for number, name in enumerate(names)},
    }


def _schema(columns: Columns) -> Any:  # noqa: ANN401
    kinds = {"O": pyarrow.string(), "f": pyarrow.float64()}
    return pyarrow.schema([(name, kinds[each.dtype.kind]) for name, each in columns.items()])
