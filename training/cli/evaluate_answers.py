"""Writes the answers of `headlight-train evaluate` to tables: all rows, or the wrong ones."""

import argparse
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pyarrow

from model.tables.files import Format, format_of
from model.tables.writing import Target, open_table
from training.data.dataset import Dataset
from training.errors import DataError
from training.measure.evaluate import Columns, Measured, answer_columns, wrong_first

_FORMS = ".csv, .tsv, .jsonl or .parquet"


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
        columns = answer_columns(datasets, measured)
        count = len(columns["text"])
        if option == "--errors":
            order, columns = wrong_first(columns)
            lines += f"{len(order):,} wrong of {count:,} rows, most certain first: {path}\n"
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


def _schema(columns: Columns) -> Any:  # noqa: ANN401
    kinds = {"O": pyarrow.string(), "f": pyarrow.float64()}
    return pyarrow.schema([(name, kinds[each.dtype.kind]) for name, each in columns.items()])
