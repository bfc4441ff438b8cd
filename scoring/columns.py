"""Chooses the column of texts and the columns that the output keeps."""

from collections import Counter
from collections.abc import Sequence

from model.tokenization.tokenizer import TEXT_COLUMNS
from scoring.errors import InputFileError, OptionError
from scoring.output.manifest import Column, ColumnType

_RENAMED = "input_"
_SHOWN = 20
#: kinds of JSON values, and the column type of a column that has only these
_TYPES: tuple[tuple[frozenset[str], ColumnType], ...] = (
    (frozenset({"str"}), "string"),
    (frozenset({"int", "long"}), "integer"),
    (frozenset({"int", "float"}), "number"),
    (frozenset({"bool"}), "boolean"),
)


def choose_text_column(path: str, names: Sequence[str], wanted: str | None) -> str:
    """Returns the name of the column of texts, or raises InputFileError if none or several fit."""
    if wanted is not None:
        fitting = [name for name in names if name == wanted]
    else:
        fitting = [name for name in names if name.strip().casefold() in TEXT_COLUMNS]
    if len(fitting) == 1:
        return fitting[0]
    expected = " or ".join(map(repr, TEXT_COLUMNS if wanted is None else [wanted]))
    count = f"{len(fitting)} columns are" if fitting else "no column is"
    advice = "name each once" if wanted and fitting else "choose one with --text-column"
    separator = next((mark for mark in ";|\t" if len(names) == 1 and mark in names[0]), None)
    if separator is not None:
        advice = f"cells that {separator!r} separates are not read: write commas, or tabs in a .tsv"
    raise InputFileError(path, f"{count} named {expected} among {show(names)}: {advice}")


def choose_columns(
    path: str,
    available: Sequence[tuple[str, ColumnType | None]],
    *,
    wanted: Sequence[str] | None,
    added: tuple[str, ...],
) -> tuple[Column, ...]:
    """Chooses the columns that the output keeps.

    Raises:
        InputFileError: a wanted column is not there, or a name is there twice.
        OptionError: two columns of the output would have one name.
    """
    names = [name for name, _ in available]
    kept = names if wanted is None else list(wanted)
    counts = Counter(names)
    for name in kept:
        if name not in counts:
            raise InputFileError(
                path, f"no column is named {name!r} among {show(names)}: change --columns"
            )
        if counts[name] > 1:
            raise InputFileError(path, f"two columns are named {name!r}: name each once")
    types = dict(available)
    columns = tuple(
        Column(
            name=name,
            output_name=f"{_RENAMED}{name}" if name in added else name,
            type=types[name],
        )
        for name in kept
    )
    for name, count in Counter(column.output_name for column in columns).items():
        if count > 1:
            raise OptionError(
                f"two columns of the output would be named {name!r}: choose others with --columns"
            )
    return columns


def column_type(kinds: frozenset[str]) -> ColumnType:
    """Chooses the type of a column of JSON values."""
    if not kinds:
        return "string"
    return next((name for fitting, name in _TYPES if kinds <= fitting), "json")


def show(names: Sequence[str]) -> str:
    """Lists the first names of columns for a message, long ones cut."""
    shown = [repr(name if len(name) <= 40 else f"{name[:37]}...") for name in names[:_SHOWN]]
    more = f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else ""
    return ", ".join(shown) + more if shown else "no columns"
