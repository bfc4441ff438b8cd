"""Finds columns by their names: those that the user gives, or else those that are usual."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path, PurePath
from urllib.parse import unquote

from model.errors import TableError, shorten

TEXT_COLUMNS = (
    "text",
    "sentence",
    "review",
    "review_text",
    "content",
    "comment",
    "message",
    "body",
    "tweet",
)
LABEL_COLUMNS = ("label", "sentiment", "class", "category", "stars", "rating", "polarity")
_HIVE_NULL = "__HIVE_DEFAULT_PARTITION__"
_SHOWN = 20
_LONGEST = 40


@dataclass(frozen=True, slots=True)
class Columns:
    """Which columns hold what, and how a file is spelled."""

    text: str | None = None  # name of the column of texts; None: the one of `TEXT_COLUMNS`
    label: str | None = None  # name of the column of labels; None: the one of `LABEL_COLUMNS`
    delimiter: str | None = None  # one character, of CSV files; None: as the header shows
    encoding: str | None = None  # of a text file; None: UTF-8, or UTF-16 if the file begins so
    sheet: str | None = None  # of a workbook; None: the only one with values that is not hidden
    header: bool = True  # whether the first line of CSV and TSV files names the columns
    stars: bool = False  # whether labels are stars from 1 to 5, to be read as sentiment
    skip_bad: bool = False  # whether rows that cannot be used are left out


def choose_text_column(path: str | Path, names: Sequence[str], wanted: str | None) -> str:
    """Returns the name of the column of texts, or raises TableError if none or several fit."""
    return _choose(path, names, wanted, TEXT_COLUMNS, "text")


def choose_text_and_label(
    path: str | Path, names: Sequence[str], columns: Columns
) -> tuple[str, str]:
    """Returns the names of two columns, or raises TableError if they cannot be found."""
    text = choose_text_column(path, names, columns.text)
    label = _choose(path, names, columns.label, LABEL_COLUMNS, "label")
    if text == label:
        raise TableError(
            path, f"text and label cannot both be the column {text!r}: choose two columns"
        )
    return text, label


def _choose(
    path: str | Path, names: Sequence[str], wanted: str | None, guesses: Sequence[str], kind: str
) -> str:
    if not names:
        raise TableError(path, "has no columns: it must hold a header, or objects of JSON")
    if wanted is not None:
        fitting = find(names, wanted)
    else:
        fitting = [name for name in names if name.strip().casefold() in guesses]
    if len(fitting) == 1:
        return fitting[0]
    if len(fitting) > 1 and wanted is None:
        raise TableError(
            path,
            f"has the columns {' and '.join(map(repr, fitting))}, each of which may hold {kind}s: "
            f"choose one with --{kind}-column",
        )
    expected = " or ".join(map(repr, guesses if wanted is None else [wanted]))
    count = f"{len(fitting)} columns are" if fitting else "no column is"
    advice = "name each once" if fitting else f"choose one with --{kind}-column"
    raise TableError(path, f"{count} named {expected} among {show(names)}: {advice}")


def partitions(path: str | Path) -> dict[str, str | None]:
    """Returns the columns that folders of a path name, such as `lang=de`."""
    steps = (each.split("=", 1) for each in PurePath(path).parts[:-1] if "=" in each)
    pairs = (map(unquote, step) for step in steps)
    return {name: None if value == _HIVE_NULL else value for name, value in pairs if name}


def find(names: Sequence[str], wanted: str) -> list[str]:
    """Returns the columns of a name as it is spelled, or else but for spaces around it."""
    exact = [name for name in names if name == wanted]
    return exact or [name for name in names if name.strip() == wanted.strip()]


def show(names: Sequence[str]) -> str:
    """Lists the first names of columns for a message, long ones cut."""
    shown = [repr(shorten(name, _LONGEST)) for name in names[:_SHOWN]]
    more = f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else ""
    return ", ".join(shown) + more if shown else "no columns"
