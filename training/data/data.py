"""From files of labelled text to one dataset, and from a dataset to its two parts.

Every row is checked before any is used: bad ones are listed, none is skipped.
"""

import hashlib
import re
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from model.manifest import DataSource
from model.text import check_text
from training.data.labels import Label, class_number, name_classes, parse_label
from training.data.readers import Columns, Row, read_rows
from training.errors import DataError, RecipeError

__all__ = ["Columns", "Dataset", "read_dataset", "split", "split_last"]

_FAULTS_SHOWN = 5
_GUESSED = Columns()
_NOT_LETTER_OR_DIGIT = re.compile(r"[\W_]+")


@dataclass(frozen=True, slots=True)
class Dataset:
    """Texts with their classes.

    Args:
        texts: as the files spell them.
        label_ids: the class of each text, an index into `labels`.
        labels: names of the classes, in their order.
        sources: the files that the texts come from.
    """

    texts: tuple[str, ...]
    label_ids: tuple[int, ...]
    labels: tuple[str, ...]
    sources: tuple[DataSource, ...]

    def __len__(self) -> int:
        return len(self.texts)

    def take(self, indices: Iterable[int]) -> "Dataset":
        """Some of the rows, in the order given; labels and sources stay."""
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
) -> Dataset:
    """Reads files whole, checks every row, and joins them in the order given.

    Args:
        paths: TSV, CSV, JSON Lines or Parquet files, at least one.
        columns: which columns hold what.
        labels: the classes in their order; if None they are taken from the files, which then
            must hold two or more.

    Returns:
        Every row of every file.

    Raises:
        DataError: a file cannot be read or a row cannot be used; or, if `labels` is None, words
            and numbers are mixed or all rows are of one class.
        RecipeError: `labels` has less than two names, or one of them twice or blank.
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
    rows = [example for path in paths for example in examples[path]]
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
    """All rows of a file, or one error that names its first bad rows and counts all of them."""
    examples = []
    faults: list[tuple[int, str]] = []
    for row in rows:
        try:
            examples.append(_check_row(row, labels))
        except ValueError as error:
            faults.append((row.number, str(error)))
    if faults:
        first, *others = faults
        shown = [f"row {number}: {fault}" for number, fault in others[: _FAULTS_SHOWN - 1]]
        if len(faults) > _FAULTS_SHOWN:
            shown.append(f"and {len(faults) - _FAULTS_SHOWN} more")
        total = f" ({len(faults)} bad rows)" if others else ""
        raise DataError(path, "; ".join([first[1], *shown]) + total, row=first[0])
    if not examples:
        raise DataError(path, "has no rows: it must hold a text and a label in each")
    return examples


def _check_row(row: Row, labels: Sequence[str] | None) -> _Example:
    if row.fault is not None:
        raise ValueError(row.fault)
    if not isinstance(row.text, str):
        # A ValueError, as every fault of a row is: all of them are caught and listed together.
        raise ValueError(f"the text must be a string, is {type(row.text).__name__}")  # noqa: TRY004
    check_text(row.text)
    label = parse_label(row.label)
    if labels is not None:
        class_number(label, labels)
    return _Example(row.number, row.text, label)


def _find_classes(examples: dict[Path, list[_Example]]) -> tuple[str, ...]:
    found: dict[Label, None] = {}
    spellings: dict[str, Label] = {}
    path = Path()
    for path, rows in examples.items():
        for row in rows:
            if row.label in found:
                continue
            if any(type(row.label) is not type(label) for label in found):
                raise DataError(
                    path,
                    f"label {row.label!r} is one of words and numbers mixed: use one kind in all "
                    "rows, or name the classes in their order with --labels",
                    row=row.row,
                )
            other = spellings.setdefault(str(row.label).casefold(), row.label)
            if other != row.label:
                raise DataError(
                    path,
                    f"labels {other!r} and {row.label!r} differ by case alone: write them alike",
                    row=row.row,
                )
            found[row.label] = None
    if len(found) < 2:
        raise DataError(
            path,
            f"every label is {next(iter(found))!r}: a classifier needs rows of two or more "
            "classes; name them with --labels if this file has only one",
        )
    return name_classes(found)


def split(dataset: Dataset, *, share: float, seed: int) -> tuple[Dataset, Dataset]:
    """Holds some rows out, the same share of each class.

    Rows whose texts have the same letters and digits stay together, whatever their case, spaces
    and punctuation, so that no text is both learned and held out.

    Args:
        dataset: of two or more different texts in each class.
        share: of the rows of each class to hold out, between 0 and 1; met to within the rows of
            one text.
        seed: the same seed holds out the same rows.

    Returns:
        The rows to train on and the rows held out, each in the order of the dataset.

    Raises:
        RecipeError: `share` is not between 0 and 1.
        DataError: a class has too few texts to be on both sides.
    """
    if not 0.0 < share < 1.0:
        raise RecipeError(f"the share held out must be between 0 and 1, got {share}")
    copies: dict[str, list[int]] = defaultdict(list)
    for index, text in enumerate(dataset.texts):
        copies[text_key(text)].append(index)
    groups: dict[int, list[list[int]]] = defaultdict(list)
    for indices in copies.values():
        groups[dataset.label_ids[indices[0]]].append(indices)
    random = np.random.default_rng(seed)
    held_out: set[int] = set()
    for label_id, label in enumerate(dataset.labels):
        if len(groups[label_id]) < 2:
            raise DataError(
                Path(dataset.sources[0].file),
                f"class {label} has {len(groups[label_id])} different texts, at least 2 are "
                "needed to hold one out: add rows, or give a file to validate on",
            )
        wanted = max(1, round(share * sum(map(len, groups[label_id]))))
        taken = 0
        for place in random.permutation(len(groups[label_id]))[1:]:
            if taken >= wanted:
                break
            held_out.update(groups[label_id][place])
            taken += len(groups[label_id][place])
    everything = range(len(dataset))
    return (
        dataset.take(index for index in everything if index not in held_out),
        dataset.take(index for index in everything if index in held_out),
    )


def split_last(dataset: Dataset, *, share: float) -> tuple[Dataset, Dataset]:
    """Holds the last rows out, whatever their classes and texts.

    Args:
        dataset: of two or more rows.
        share: of the rows to hold out, between 0 and 1; at least one row is on either side.

    Returns:
        The rows to train on and the rows held out.

    Raises:
        DataError: there is only one row.
    """
    if len(dataset) < 2:
        raise DataError(
            Path(dataset.sources[0].file),
            "has 1 row, at least 2 are needed to hold one out: add rows, or give a file to "
            "validate on",
        )
    kept = min(max(1, round((1.0 - share) * len(dataset))), len(dataset) - 1)
    return dataset.take(range(kept)), dataset.take(range(kept, len(dataset)))


def text_key(text: str) -> str:
    """What two texts have in common that are held to be the same: letters and digits."""
    folded = text.casefold()
    return _NOT_LETTER_OR_DIGIT.sub("", folded) or folded.strip()
