"""Reads labelled files into one dataset and finds its classes.

Every row is checked before any is used. Bad rows are listed; none is skipped.
"""

import hashlib
import json
import sys
from collections.abc import Iterable, Sequence, Set
from dataclasses import dataclass
from pathlib import Path

from model.checkpoint.manifest import DataSource
from model.network.labels import POLES, check_label, has_pair
from model.tables.columns import Columns
from model.tables.rows import Row, read_rows
from model.tables.values import text_fault
from training.data.labels import (
    Label,
    class_number,
    difference,
    is_number,
    look_of,
    missing_hint,
    name_classes,
    parse_label,
)
from training.errors import DataError, RecipeError

#: the name of rows that no file holds, in errors and in the record
IN_MEMORY = "X and y"
_ERRORS_SHOWN = 5
_GUESSED = Columns()


@dataclass(frozen=True, slots=True)
class Dataset:
    """Texts and their classes.

    Args:
        label_ids: the class of each text, an index into `labels`.
        labels: names of the classes, in their order.
    """

    texts: tuple[str, ...]
    label_ids: tuple[int, ...]
    labels: tuple[str, ...]
    sources: tuple[DataSource, ...]

    def __len__(self) -> int:
        return len(self.texts)

    def take(self, indices: Iterable[int]) -> "Dataset":
        """Returns some of the rows, in the order given, with the same labels and sources."""
        chosen = tuple(indices)
        return Dataset(
            texts=tuple(self.texts[index] for index in chosen),
            label_ids=tuple(self.label_ids[index] for index in chosen),
            labels=self.labels,
            sources=self.sources,
        )


@dataclass(frozen=True, slots=True)
class _Example:
    row: int
    text: str
    label: Label


def read_dataset(
    paths: Sequence[Path],
    *,
    columns: Columns = _GUESSED,
    labels: Sequence[str] | None = None,
    some: bool = False,
) -> Dataset:
    """Reads files, checks every row, and joins the files in the order given.

    Args:
        paths: TSV, CSV, JSON Lines or Parquet files, at least one.
        labels: the classes in their order; None: those of the files, which must have at least
            two.
        some: whether rows that are labelled 0 and 1 only mean `negative` and `positive`, if these
            are among more `labels`; the dataset then has these two. Other numbers that are fewer
            than `labels` are refused.

    Raises:
        DataError: a file cannot be read or a row cannot be used. If `labels` is None: words and
            numbers are mixed, or all rows have one class.
        RecipeError: `labels` has fewer than two names, or a name is repeated or blank.
    """
    if labels is not None:
        _check_labels(labels)
    sources = []
    examples: dict[Path, list[_Example]] = {}
    for path in paths:
        content = _read_bytes(path)
        examples[path] = _check_rows(path, read_rows(path, content, columns), labels)
        sources.append(
            DataSource(
                file=path.name,
                rows=len(examples[path]),
                sha256=hashlib.sha256(content).hexdigest(),
            )
        )
    names = tuple(labels or _find_classes(examples))
    if labels is None:
        sys.stderr.writelines(f"{hint}\n" for name in names if (hint := missing_hint(name)))
    rows = [example for path in paths for example in examples[path]]
    if some:
        names = _choose_names(paths[0], {row.label for row in rows}, names)
    numbers = {label: class_number(label, names) for label in {row.label for row in rows}}
    return Dataset(
        texts=tuple(row.text for row in rows),
        label_ids=tuple(numbers[row.label] for row in rows),
        labels=names,
        sources=tuple(sources),
    )


def dataset_of(texts: Sequence[object], labels: Sequence[object]) -> Dataset:
    """Checks rows that are in memory, and finds their classes, as those of a file.

    Raises:
        DataError: a row cannot be used, or all have one class; rows count from 0.
    """
    path = Path(IN_MEMORY)
    pairs = list(zip(texts, labels, strict=True))
    rows = (Row(number, text, label) for number, (text, label) in enumerate(pairs))
    examples = _check_rows(path, rows, None)
    names = _find_classes({path: examples})
    sha256 = hashlib.sha256(json.dumps(pairs).encode()).hexdigest()
    return Dataset(
        texts=tuple(each.text for each in examples),
        label_ids=tuple(class_number(each.label, names) for each in examples),
        labels=names,
        sources=(DataSource(file=IN_MEMORY, rows=len(examples), sha256=sha256),),
    )


def _check_labels(labels: Sequence[str]) -> None:
    if len(labels) < 2 or len(set(labels)) < len(labels) or not all(map(str.strip, labels)):
        raise RecipeError(
            f"labels must be two or more different names, got {', '.join(labels) or 'none'}"
        )
    looks: dict[str, str] = {}
    for label in labels:
        other = looks.setdefault(look_of(label), label)
        if other != label:
            raise RecipeError(f"labels {difference(other, label)}: name each class once")
        try:
            check_label(label)
        except ValueError as error:
            raise RecipeError(f"labels: {error}") from error


def _read_bytes(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except FileNotFoundError as error:
        raise DataError(path, "does not exist") from error
    except IsADirectoryError as error:
        raise DataError(path, "is a folder: name the files in it") from error
    except OSError as error:
        raise DataError(path, f"cannot be read: {error.strerror}") from error


def _check_rows(path: Path, rows: Iterable[Row], labels: Sequence[str] | None) -> list[_Example]:
    """Returns all rows of a file, or raises one error that lists the first bad rows."""
    examples = []
    faults: list[tuple[int, str]] = []
    for row in rows:
        try:
            examples.append(_check_row(row, labels))
        except ValueError as error:
            faults.append((row.number, str(error)))
    if faults:
        first, *others = faults
        shown = [f"row {number}: {fault}" for number, fault in others[: _ERRORS_SHOWN - 1]]
        if len(faults) > _ERRORS_SHOWN:
            shown.append(f"and {len(faults) - _ERRORS_SHOWN} more")
        total = f" ({len(faults)} bad rows)" if others else ""
        raise DataError(path, "; ".join([first[1], *shown]) + total, row=first[0])
    if not examples:
        raise DataError(path, "has no rows: it must hold a text and a label in each")
    return examples


def _check_row(row: Row, labels: Sequence[str] | None) -> _Example:
    fault = row.fault or text_fault(row.text)
    if fault is not None:
        raise ValueError(fault)
    label = parse_label(row.label)
    if labels is not None:
        class_number(label, labels)
    return _Example(row.number, str(row.text), label)


def _choose_names(path: Path, found: Set[Label], names: tuple[str, ...]) -> tuple[str, ...]:
    """Chooses the classes that the labels of a file are numbers of."""
    if len(names) == 2 or not all(isinstance(label, int) for label in found):
        return names
    if len(found) >= len(names) or any(map(is_number, names)):
        return names
    if found <= {0, 1} and has_pair(names):
        return POLES
    numbers = ", ".join(map(str, sorted(found, key=str)))
    raise DataError(
        path,
        f"the labels are {numbers}, and the classes {', '.join(names)}: which ones are meant is "
        "not sure; name each class by its word, or give --labels in the order of the numbers",
    )


def _find_classes(examples: dict[Path, list[_Example]]) -> tuple[str, ...]:
    classes: dict[Label, None] = {}
    spellings: dict[str, Label] = {}
    first: list[Label] = []
    path = Path()
    for path, rows in examples.items():
        for row in rows:
            if row.label in classes:
                continue
            if any(is_number(row.label) != is_number(label) for label in first):
                hints = "; ".join(
                    filter(None, (missing_hint(row.label), *map(missing_hint, first)))
                )
                raise DataError(
                    path,
                    f"label {row.label!r} is one of words and numbers mixed: use one kind in all "
                    "rows, or name the classes in their order with --labels"
                    + (f"; {hints}" if hints else ""),
                    row=row.row,
                )
            other = spellings.setdefault(look_of(str(row.label)), row.label)
            if other != row.label:
                raise DataError(
                    path, f"labels {difference(other, row.label)}: write them alike", row=row.row
                )
            classes[row.label] = None
            first = first or [row.label]
    if len(classes) < 2:
        raise DataError(
            path,
            f"every label is {next(iter(classes))!r}: a classifier needs rows of two or more "
            "classes; name them with --labels if this file has only one",
        )
    return name_classes(classes)
