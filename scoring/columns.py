"""Chooses the columns that the output keeps."""

from collections import Counter
from collections.abc import Sequence

from model.tables.columns import find, show
from scoring.errors import InputFileError, OptionError
from scoring.output.manifest import Column, ColumnType

_RENAMED = "input_"
#: kinds of JSON values, and the column type of a column that has only these
_TYPES: tuple[tuple[frozenset[str], ColumnType], ...] = (
    (frozenset({"str"}), "string"),
    (frozenset({"int", "long"}), "integer"),
    (frozenset({"int", "float"}), "number"),
    (frozenset({"bool"}), "boolean"),
)


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
    kept = names if wanted is None else [next(iter(find(names, each)), each) for each in wanted]
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
