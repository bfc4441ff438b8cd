"""Chooses where and how the answers of one file are written, and joins them to its rows."""

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow

from model.tables.files import Format, format_of
from model.tables.writing import STANDARD_OUTPUT, Target, Values
from scoring.errors import OptionError, OutputError
from scoring.output.manifest import Column
from scoring.output.writing import TYPES, cell_of

_NOT_WRITTEN = (".xlsx", ".zip")
_ADDED = (pyarrow.field("label", pyarrow.string()), pyarrow.field("score", pyarrow.float64()))


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


def schema_of(columns: Sequence[Column], stored: Any = None) -> Any:  # noqa: ANN401
    """Returns the schema of the kept columns and the answers.

    Args:
        stored: the schema of the kept columns if they are those of a Parquet file.
    """
    kinds = [TYPES[each.type or "json"] for each in columns] if stored is None else stored.types
    names = [column.output_name for column in columns]
    return pyarrow.schema([*zip(names, kinds, strict=True), *_ADDED])


def with_answers(
    values: Values,
    columns: Sequence[Column],
    labels: Sequence[str | None],
    scores: Sequence[float | None],
    *,
    typed: bool,
) -> Values:
    """Joins kept values, labels and scores; `typed` ones are for Parquet."""
    if isinstance(values, pyarrow.Table):
        for field, added in zip(_ADDED, (labels, scores), strict=True):
            values = values.append_column(field, pyarrow.array(added, field.type))
        return values
    if typed:
        values = [[*map(cell_of, row, columns)] for row in values]
    return [[*row, *answer] for row, *answer in zip(values, labels, scores, strict=True)]
