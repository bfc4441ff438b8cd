"""Chooses the columns of the input that an output keeps, and joins the answers to them."""

from argparse import Namespace
from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import pyarrow

from model.errors import TableError
from model.tables.columns import Columns, choose_text_column, find, show
from model.tables.parquet import wider_type
from model.tables.pieces import Scan, TableFile
from model.tables.table import Table
from model.tables.values import MISSING, to_json
from model.tables.writing import Values
from scoring.errors import ScoringError

#: of a kept column of JSON Lines; `json` is a value of any type, as JSON text
ColumnType = Literal["string", "integer", "number", "boolean", "json"]
_RENAMED = "input_"
#: types of JSON values, and the type of a column that has only these
_TYPES: tuple[tuple[frozenset[str], ColumnType], ...] = (
    (frozenset({"str"}), "string"),
    (frozenset({"int", "long"}), "integer"),
    (frozenset({"int", "float"}), "number"),
    (frozenset({"bool"}), "boolean"),
)
#: the type in Parquet of each type of a column
TYPES = {
    "string": pyarrow.string(),
    "integer": pyarrow.int64(),
    "number": pyarrow.float64(),
    "boolean": pyarrow.bool_(),
    "json": pyarrow.string(),
}


@dataclass(frozen=True)
class Column:
    """A column of the input that the output keeps.

    `output_name` differs if an added column has this name. Parquet knows the type itself; `wide` is
    the type there that holds the values of all files, None if they have one type.
    """

    name: str
    output_name: str
    type: ColumnType | None
    wide: str | None = None


def spelling_of(options: Namespace) -> Columns:
    """Returns how the inputs are written, by the options of the command."""
    return Columns(
        text=options.text_column,
        delimiter=options.delimiter,
        encoding=options.encoding,
        header=not options.no_header,
    )


def scan_table(table: Table, spelling: Columns, piece_bytes: int) -> Scan:
    """Reads a table through; raises TableError if most rows are in another encoding."""
    scan = table.scan(piece_bytes)
    if 2 * scan.garbled > scan.rows:
        raise TableError(
            table.file.path,
            f"{scan.garbled:,} of {scan.rows:,} rows are not {spelling.encoding or 'UTF-8'}: "
            "name the encoding, such as --encoding cp1252",
        )
    return scan


def choose_columns(
    file: TableFile,
    scans: Sequence[Scan],
    *,
    spelling: Columns,
    wanted: Sequence[str] | None,
    added: Collection[str],
) -> tuple[str, tuple[Column, ...]]:
    """Chooses the column of texts, and the columns that the output keeps.

    Args:
        file: the first one, which is named in errors.
        scans: of all files.
        wanted: names of the columns to keep; None: all.
        added: names of the columns that the answers add.

    Raises:
        TableError: a column is not there, or a name is there twice.
        ScoringError: two columns of the output would have one name.
    """
    names: Sequence[str] = scans[0].names
    if file.format == "jsonl":  # any row may be the first with a key
        names = list(dict.fromkeys(name for scan in scans for name in scan.names))
    text = choose_text_column(file.path, names, spelling.text)
    counts = Counter(names)
    kept = names if wanted is None else [next(iter(find(names, each)), each) for each in wanted]
    columns = []
    for name in kept:
        if name not in counts:
            raise TableError(
                file.path, f"no column is named {name!r} among {show(names)}: change --columns"
            )
        if counts[name] > 1:
            raise TableError(file.path, f"two columns are named {name!r}: name each once")
        types = {each for scan in scans for each in scan.types.get(name, ())}
        columns.append(
            Column(
                name=name,
                output_name=f"{_RENAMED}{name}" if name in added else name,
                type=None if file.format == "parquet" else _column_type(types),
                wide=wider_type(types) if file.format == "parquet" and len(types) > 1 else None,
            )
        )
    for name, count in Counter(column.output_name for column in columns).items():
        if count > 1:
            raise ScoringError(
                f"two columns of the output would be named {name!r}: choose others with --columns"
            )
    return text, tuple(columns)


def _column_type(types: Collection[str]) -> ColumnType:
    """Chooses the type of a column of JSON values; others have strings."""
    found = set(types) - {"NoneType"}
    return next((name for fitting, name in _TYPES if found <= fitting), "json")


def join_answers(
    values: Values,
    columns: Sequence[Column],
    added: Any,  # noqa: ANN401
    *,
    typed: bool,
) -> Values:
    """Joins the values of kept columns and a pyarrow.Table of answers.

    Args:
        typed: whether the rows are for Parquet; they are then a pyarrow.Table too.
    """
    if isinstance(values, pyarrow.Table):
        kept = values.columns
    elif typed:
        kept = [
            pyarrow.array([to_cell(row[index], column) for row in values], TYPES[column.type or ""])
            for index, column in enumerate(columns)
        ]
    else:
        answers = zip(*(column.to_pylist() for column in added.columns), strict=True)
        return [[*row, *answer] for row, answer in zip(values, answers, strict=True)]
    names = [*(column.output_name for column in columns), *added.column_names]
    return pyarrow.table([*kept, *added.columns], names)


def to_cell(value: object, column: Column) -> object:
    """Returns a value of JSON Lines as its column takes it."""
    if value is None or value is MISSING:
        return None
    return to_json(value).decode() if column.type == "json" else value
