"""Reads labelled files into one dataset and finds its classes.

Every row is checked before any is used. Bad rows are listed; none is skipped. A label that is a
word names a class. A whole number may have a sign or end in `.0` (`1`, `+1`, `1.0`); `007`, `1E2`
and digits other than ASCII's are words.
"""

import hashlib
import re
import sys
import unicodedata
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from model.checkpoint.manifest import DataSource
from model.network.labels import check_label
from model.tables.columns import Columns
from model.tables.rows import ClassName, Row, read_rows
from model.tables.values import text_fault
from training.errors import DataError, RecipeError

Label = str | int

_ERRORS_SHOWN = 5
_GUESSED = Columns()
_WHOLE = re.compile(r"[+-]?(?:0|[1-9][0-9]{0,199})(?:\.0)?")
# Words that are no names: other numbers, and what is written in place of a number.
_OTHER_NUMBER = re.compile(r"[+-]?(?:[0-9]*\.[0-9]+|[0-9]+\.|nan|inf|infinity)", re.IGNORECASE)
_NO_LABEL = frozenset({"na", "n/a", "null", "none", "<na>"})
# Characters of other scripts that look like Latin letters, after case folding, and what they
# look like; no two words of one language differ only by these.
_TWINS = str.maketrans(
    "\u0430\u0435\u043e\u0440\u0441\u0443\u0445\u0456\u0458\u0455\u04bb\u0432\u043a\u043c\u043d\u0442"
    "\u03b1\u03bf\u03b9\u03bd\u03c1\u03ba\u03c4\u03b5\u03b7\u03c7\u0131\u0261\u2019",
    "aeopcyxijshbkmhtaoivpktenxig'",
)


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
) -> Dataset:
    """Reads files, checks every row, and joins the files in the order given.

    Args:
        paths: TSV, CSV, JSON Lines or Parquet files, at least one.
        labels: the classes in their order; None: those of the files, which must have at least
            two.

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
        sys.stderr.writelines(f"{hint}\n" for name in names if (hint := _hint(name)))
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
    looks: dict[str, str] = {}
    for label in labels:
        other = looks.setdefault(_look(label), label)
        if other != label:
            raise RecipeError(f"labels {_difference(other, label)}: name each class once")
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
        label = labels[class_number(label, labels)]
    return _Example(row.number, str(row.text), label)


def _find_classes(examples: dict[Path, list[_Example]]) -> tuple[str, ...]:
    classes: dict[Label, None] = {}
    spellings: dict[str, Label] = {}
    first: list[Label] = []
    path = Path()
    for path, rows in examples.items():
        for row in rows:
            if row.label in classes:
                continue
            if any(_is_number(row.label) != _is_number(label) for label in first):
                hints = "; ".join(filter(None, (_hint(row.label), *map(_hint, first))))
                raise DataError(
                    path,
                    f"label {row.label!r} is one of words and numbers mixed: use one kind in all "
                    "rows, or name the classes in their order with --labels"
                    + (f"; {hints}" if hints else ""),
                    row=row.row,
                )
            other = spellings.setdefault(_look(str(row.label)), row.label)
            if other != row.label:
                raise DataError(
                    path, f"labels {_difference(other, row.label)}: write them alike", row=row.row
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


def parse_label(value: object) -> Label:
    """Reads a label as a word or a whole number.

    Raises:
        ValueError: it is neither, or a name that no checkpoint may hold.
    """
    if isinstance(value, ClassName):
        return ClassName(check_label(value))
    value = value.strip() if isinstance(value, str) else value
    if value is None or value == "":
        raise ValueError("the label is empty: give every row a label, or leave the row out")
    number: int | None = None
    if isinstance(value, int):
        number = int(value)  # true and false are 1 and 0
    elif isinstance(value, float) and value.is_integer():
        number = int(value)
    elif isinstance(value, str):
        if _WHOLE.fullmatch(value):
            number = int(value.removesuffix(".0"))
        elif not _OTHER_NUMBER.fullmatch(value):
            return check_label(value)
    if number is not None:
        check_label(str(number))
        return number
    raise ValueError(
        f"label {_shown(value)} is neither a word nor a whole number: name each class by a word, "
        "or number the classes from 0"
    )


def name_classes(labels: Collection[Label]) -> tuple[str, ...]:
    """Names the classes after the labels of all rows: words in alphabetical order, or numbers.

    0 and 1 are named `negative` and `positive`.
    """
    if all(label in (0, 1) for label in labels):
        return ("negative", "positive")
    numbers = sorted(label for label in labels if isinstance(label, int))
    words = sorted(label for label in labels if isinstance(label, str))
    return tuple(str(label) for label in (*numbers, *words))


def class_number(label: Label, labels: Sequence[str]) -> int:
    """Finds the class of a label.

    Args:
        labels: names of the classes, in their order. A number is an index into them, unless a
            class is named by a number.

    Raises:
        ValueError: there is no such class.
    """
    name = str(label)
    if name in labels:
        return labels.index(name)
    if isinstance(label, ClassName):
        # Data sets shorten names, such as `neg` and `pos`; a number would be read as an index.
        longer = [other for other in labels if other.casefold().startswith(name.casefold())]
        if len(longer) == 1:
            return labels.index(longer[0])
    alike = next((other for other in labels if _look(other) == _look(name)), name)
    if alike.casefold() != name.casefold():
        raise ValueError(f"the label and a class, {_difference(name, alike)}: write them alike")
    by_index = not any(map(_is_number, labels))
    if by_index and isinstance(label, int) and 0 <= label < len(labels):
        return label
    range_hint = f" (or 0 to {len(labels) - 1})" if by_index else ""
    raise ValueError(
        f"label {_shown(label)} is not one of {', '.join(labels)}{range_hint}: correct it, "
        "or leave the row out"
    )


def _is_number(label: Label) -> bool:
    """Whether a label is a number, or a word such as `007` that stands among numbers."""
    try:
        float(label)
    except ValueError:
        return False
    return True


def _look(name: str) -> str:
    """Returns what is left of a name without the differences that a reader does not see."""
    folded = unicodedata.normalize("NFKC", unicodedata.normalize("NFKC", name).casefold())
    kinds = ((character, unicodedata.category(character)) for character in folded)
    # Format characters and variation selectors are not seen, and all dashes look alike.
    seen = "".join(
        "-" if kind == "Pd" else character
        for character, kind in kinds
        if kind != "Cf" and not "\ufe00" <= character <= "\ufe0f"
    )
    return " ".join(seen.translate(_TWINS).split())


def _difference(first: Label, second: Label) -> str:
    """Names two spellings so that the difference is seen."""
    if str(first).casefold() == str(second).casefold():
        return f"{first!r} and {second!r} differ only by case"
    return f"{first!a} and {second!a} look alike"


def _hint(label: Label) -> str:
    """Returns what to say of a word such as `NA`; nothing for other labels."""
    if str(label).casefold() not in _NO_LABEL:
        return ""
    return f"{label!r} is read as a word, a class of its own: leave its rows out if they have none"


def _shown(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 40 else f"{text[:37]}..."
