"""Reads labelled files into one dataset and finds its classes.

Every row is checked before any is used. Faults of all files are listed together, by their kind;
bad rows are skipped only where `Columns.skip_bad` says so.
"""

import hashlib
import json
import re
import sys
from collections.abc import Iterable, Mapping, Sequence, Set
from dataclasses import dataclass, replace
from pathlib import Path

from model.checkpoint.records import DataSource
from model.errors import place
from model.network.labels import PAIR, check_label, has_pair
from model.tables.columns import Columns
from model.tables.rows import Row, read_rows
from model.tables.values import text_fault
from training.data.hub import name_of
from training.data.labels import (
    Label,
    class_number,
    difference,
    is_number,
    look_of,
    missing_hint,
    name_classes,
    parse_label,
    sentiment_of_stars,
)
from training.errors import DataError, RecipeError

#: the name of rows that no file holds, in errors and in the record
IN_MEMORY = "X and y"
_KINDS_SHOWN, _ROWS_SHOWN = 10, 3
# What differs between faults of one kind: the value and its numbers.
_VALUES = re.compile(r"(?:label )?(?:'[^']*'|\"[^\"]*\")|label \S+|[0-9][0-9.,]*")
_GUESSED = Columns()


@dataclass(frozen=True, slots=True)
class Dataset:
    """Texts and their classes."""

    texts: tuple[str, ...]
    label_ids: tuple[int, ...]  # indices into `labels`
    labels: tuple[str, ...]
    sources: tuple[DataSource, ...]

    def __len__(self) -> int:
        return len(self.texts)

    def take(self, indices: Iterable[int]) -> "Dataset":
        """Returns some of the rows, in the order given, with the same labels and sources."""
        chosen = tuple(indices)
        texts = tuple(self.texts[index] for index in chosen)
        label_ids = tuple(self.label_ids[index] for index in chosen)
        return replace(self, texts=texts, label_ids=label_ids)


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

    `labels` are the classes in their order; None: those of the files, two or more. With `some`,
    rows labelled 0 and 1 only mean `negative` and `positive`, if these are among more `labels`; the
    dataset then has these two. Other numbers that are fewer than `labels` are refused.

    Raises:
        DataError: a file cannot be read, a row cannot be used, or the rows make no classes.
        RecipeError: `labels` has fewer than two names, or a name is repeated or blank.
    """
    if labels is not None:
        _check_labels(labels)
    sources = []
    examples: dict[Path, list[_Example]] = {}
    faults: list[DataError] = []
    chosen: tuple[str, ...] = ()
    for path in paths:
        content = _read_bytes(path)
        rows = read_rows(path, content, columns)
        examples[path], found, chosen = _read_examples(path, rows, columns, labels, some=some)
        faults += found
        if not found:
            digest = hashlib.sha256(content).hexdigest()
            sources.append(DataSource(file=name_of(path), rows=len(examples[path]), sha256=digest))
    if labels is None:
        faults += _class_faults(examples, has_others=bool(faults))
    if faults:
        raise _joined(faults)
    names = chosen or name_classes({row.label for each in examples.values() for row in each})
    if labels is None:
        sys.stderr.writelines(f"{hint}\n" for name in names if (hint := missing_hint(name)))
    return _dataset([row for path in paths for row in examples[path]], names, sources)


def dataset_of(
    texts: Sequence[object], labels: Sequence[object], *, names: Sequence[str] | None = None
) -> Dataset:
    """Checks rows that are in memory, as `read_dataset` those of a file; rows count from 0.

    `names` are the classes, or more than those; None: those of the rows.
    """
    path = Path(IN_MEMORY)
    pairs = list(zip(texts, labels, strict=True))
    rows = (Row(number, text, label) for number, (text, label) in enumerate(pairs))
    examples, faults, chosen = _read_examples(path, rows, _GUESSED, names, some=True)
    if names is None and not faults:
        faults = _class_faults({path: examples}, has_others=False)
    if faults:
        raise _joined(faults)
    sha256 = hashlib.sha256(json.dumps(pairs).encode()).hexdigest()
    source = DataSource(file=IN_MEMORY, rows=len(examples), sha256=sha256)
    return _dataset(examples, chosen or name_classes({each.label for each in examples}), [source])


def _dataset(
    rows: Sequence[_Example], names: tuple[str, ...], sources: Iterable[DataSource]
) -> Dataset:
    numbers = {label: class_number(label, names) for label in {row.label for row in rows}}
    return Dataset(
        texts=tuple(row.text for row in rows),
        label_ids=tuple(numbers[row.label] for row in rows),
        labels=names,
        sources=tuple(sources),
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


def _read_examples(
    path: Path, read: Iterable[Row], columns: Columns, labels: Sequence[str] | None, *, some: bool
) -> tuple[list[_Example], list[DataError], tuple[str, ...]]:
    """Returns the rows of a file that can be used, what is wrong with it, and its classes."""
    rows, bad = _check_rows(read, stars=columns.stars)
    faults = []
    names = tuple(labels or ())
    if names:
        fault = _range_fault(rows, names)
        if some and fault is None:
            names, fault = _choose_names({row.label for row in rows}, names)
        if fault is not None:
            faults.append(DataError(path, fault))
        rows, unknown = _check_classes(rows, names)
        bad = sorted([*bad, *unknown])
    if bad and columns.skip_bad:
        listed = "; ".join(f"{place(path, number)}: {fault}" for number, fault in _by_kind(bad))
        sys.stderr.write(f"{path}: skipped {len(bad)} bad rows: {listed}\n")
    elif bad:
        faults.insert(0, _bad_rows(path, bad))
    if not rows and not faults:
        faults.append(DataError(path, "has no rows: it must hold a text and a label in each"))
    return rows, faults, names


def _check_rows(
    rows: Iterable[Row], *, stars: bool
) -> tuple[list[_Example], list[tuple[int, str]]]:
    """Returns the rows of a file that can be used, and the number and the error of the others."""
    examples = []
    faults: list[tuple[int, str]] = []
    for row in rows:
        if fault := row.fault or text_fault(row.text):
            faults.append((row.number, fault))
            continue
        try:
            label = parse_label(row.label)
            label = sentiment_of_stars(label) if stars else label
            examples.append(_Example(row.number, str(row.text), label))
        except ValueError as error:
            faults.append((row.number, str(error)))
    return examples, faults


def _choose_names(found: Set[Label], names: tuple[str, ...]) -> tuple[tuple[str, ...], str | None]:
    """Chooses the classes that the labels of a file are numbers of, or returns why it cannot."""
    if len(names) == 2 or not all(isinstance(label, int) for label in found):
        return names, None
    if len(found) >= len(names) or any(map(is_number, names)):
        return names, None
    if found <= {0, 1} and has_pair(names):
        return PAIR, None
    numbers = ", ".join(map(str, sorted(found, key=str)))
    return names, (
        f"the labels are {numbers}, and the classes {', '.join(names)}: which ones are meant is "
        "not sure; name each class by its word, or give --labels in the order of the numbers"
    )


def _check_classes(
    rows: Iterable[_Example], labels: Sequence[str]
) -> tuple[list[_Example], list[tuple[int, str]]]:
    """Returns the rows whose labels are classes, and the number and the error of the others."""
    examples = []
    faults: list[tuple[int, str]] = []
    for row in rows:
        try:
            examples.append(replace(row, label=labels[class_number(row.label, labels)]))
        except ValueError as error:
            faults.append((row.row, str(error)))
    return examples, faults


def _bad_rows(path: Path, faults: Sequence[tuple[int, str]]) -> DataError:
    total = f" ({len(faults)} bad rows)" if len(faults) > 1 else ""
    ((row, fault), *others) = _by_kind(faults)
    listed = [fault, *(f"{place(path, number)}: {each}" for number, each in others)]
    return DataError(path, "; ".join(listed) + total, row=row)


def _by_kind(faults: Sequence[tuple[int, str]]) -> list[tuple[int, str]]:
    """Returns the first row of each kind of fault with its words, which name a few other rows."""
    kinds: dict[str, tuple[str, list[int]]] = {}
    for number, fault in faults:
        kind = _VALUES.sub("", fault)
        if kind not in kinds and len(kinds) >= _KINDS_SHOWN:
            kind, fault = "", "has another fault"
        kinds.setdefault(kind, (fault, []))[1].append(number)
    return [(rows[0], fault + _more(rows[1:])) for fault, rows in kinds.values()]


def _more(rows: Sequence[int]) -> str:
    if not rows:
        return ""
    end = ", ..." if len(rows) > _ROWS_SHOWN else ""
    return f" (and {len(rows)} more: {', '.join(map(str, rows[:_ROWS_SHOWN]))}{end})"


def _range_fault(rows: Iterable[_Example], labels: Sequence[str]) -> str | None:
    """Returns why numbers of a file are not places of classes, which stars could be taken for."""
    numbers = sorted({row.label for row in rows if isinstance(row.label, int)})
    if not numbers or any(map(is_number, labels)) or 0 <= numbers[0] <= numbers[-1] < len(labels):
        return None
    return (
        f"its labels are numbers from {numbers[0]} to {numbers[-1]}, and the classes "
        f"{', '.join(labels)} have the numbers 0 to {len(labels) - 1}: add --stars-to-sentiment if "
        "they are stars"
    )


def _joined(faults: Sequence[DataError]) -> DataError:
    first, *others = faults
    problem = "; ".join([first.fault, *map(str, others)])
    return DataError(first.path, problem, row=first.row)


def _class_faults(
    examples: Mapping[Path, Sequence[_Example]], *, has_others: bool
) -> list[DataError]:
    """Returns why the labels of all rows make no classes, each fault once."""
    found: dict[Label, tuple[Path, int]] = {}
    for path, rows in examples.items():
        for row in rows:
            found.setdefault(row.label, (path, row.row))
    faults = []
    spellings: dict[str, Label] = {}
    mixed = False
    first = next(iter(found), None)
    for label, (path, number) in found.items():
        if first is not None and is_number(label) != is_number(first) and not mixed:
            mixed = True
            hints = "; ".join(filter(None, map(missing_hint, (label, first))))
            faults.append(
                DataError(
                    path,
                    f"label {label!r} is one of words and numbers mixed: use one kind in all "
                    "rows, or name the classes in their order with --labels"
                    + (f"; {hints}" if hints else ""),
                    row=number,
                )
            )
        other = spellings.setdefault(look_of(str(label)), label)
        if other != label:
            fault = f"labels {difference(other, label)}: write them alike"
            faults.append(DataError(path, fault, row=number))
    if len(found) == 1 and not has_others:
        faults.append(
            DataError(
                list(examples)[-1],
                f"every label is {first!r}: a classifier needs rows of two or more classes; name "
                "them with --labels if this file has only one",
            )
        )
    return faults
