"""Chooses the columns of the input that an output keeps, and joins the answers to them."""

import base64
from argparse import Namespace
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow

from model.errors import TableError
from model.tables.columns import Columns, choose_text_column, find, show
from model.tables.parquet import wider_type
from model.tables.pieces import Scan, TableFile
from model.tables.table import Table
from model.tables.values import MISSING, to_json
from model.tables.writing import Values
from scoring.errors import ScoringError

_RENAMED = "input_"
#: the types of the values in a column of JSON, and its type in Parquet; `json` is JSON text
_TYPES = {
    "string": ({"str"}, pyarrow.string()),
    "integer": ({"int", "long"}, pyarrow.int64()),
    "number": ({"int", "float"}, pyarrow.float64()),
    "boolean": ({"bool"}, pyarrow.bool_()),
    "json": ({"str", "int", "long", "big", "float", "bool", "list", "dict"}, pyarrow.string()),
}


@dataclass(frozen=True)
class Column:
    """A column of the input that the output keeps.

    `output_name` differs if an added column has this name. `type` is `string`, `integer`, `number`,
    `boolean` or, for values of several, `json`; of Parquet a schema of pyarrow in base64, with the
    type that holds the values of all files.
    """

    name: str
    output_name: str
    type: str

    @property
    def kind(self) -> Any:  # noqa: ANN401
        """Its type in Parquet."""
        if self.type in _TYPES:
            return _TYPES[self.type][1]
        return pyarrow.ipc.read_schema(pyarrow.py_buffer(base64.b64decode(self.type))).types[0]


def spelling_of(options: Namespace) -> Columns:
    """Returns how the inputs are written, by the options of the command."""
    return Columns(
        text=options.text_column,
        delimiter=options.delimiter,
        encoding=options.encoding,
        sheet=options.sheet,
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
    files: Sequence[TableFile],
    scans: Sequence[Scan],
    *,
    spelling: Columns,
    wanted: Sequence[str] | None,
    added: Collection[str],
) -> tuple[str, tuple[Column, ...]]:
    """Chooses the column of texts, and the columns that the output keeps: those of all files.

    Args:
        wanted: names of the columns to keep; None: all.

    Raises:
        TableError: all files are empty, their forms or the types of a column do not fit together, a
            file lacks the texts, a column is nowhere, or a name is twice in one file.
        ScoringError: two columns of the output would have one name.
    """
    pairs = list(zip(files, scans, strict=True))
    filled = [pair for pair in pairs if pair[1].names or pair[1].rows] or pairs
    first, scan = filled[0]
    names = list(dict.fromkeys(name for _, each in filled for name in each.names))
    text = choose_text_column(
        first.path, names if first.format == "jsonl" else scan.names, spelling.text
    )
    kept = names if wanted is None else [next(iter(find(names, each)), each) for each in wanted]
    _check_files(filled, text, kept)
    types: dict[str, dict[Any, str]] = {name: {} for name in names}
    for file, each in filled:
        for name, kinds in each.types.items():
            for kind in kinds:
                types[name].setdefault(kind, file.path)
    columns = []
    for name in kept:
        if name not in names:
            raise TableError(
                first.path, f"no column is named {name!r} among {show(names)}: change --columns"
            )
        output_name = f"{_RENAMED}{name}" if name in added else name
        columns.append(Column(name, output_name, _type_of(name, types[name])))
    for name, count in Counter(column.output_name for column in columns).items():
        if count > 1:
            raise ScoringError(
                f"two columns of the output would be named {name!r}: choose others with --columns"
            )
    return text, tuple(columns)


def _check_files(filled: Sequence[tuple[TableFile, Scan]], text: str, kept: Sequence[str]) -> None:
    """Raises TableError for a file of another form, without its texts, or with a column twice."""
    first = filled[0][0]
    for file, scan in filled:
        formats = {file.format, first.format}
        if len(formats) > 1 and formats != {"csv", "tsv"}:
            raise TableError(
                file.path, f"is {file.format}, {first.path} is {first.format}: score them apart"
            )
        # A row of JSON without a key is judged by itself.
        if file.format != "jsonl" and text not in scan.names:
            raise TableError(
                file.path,
                f"no column is named {text!r} among {show(scan.names)}, unlike in {first.path}: "
                "score them apart",
            )
        counts = Counter(scan.names)
        for name in (text, *kept):
            if counts[name] > 1:
                raise TableError(file.path, f"two columns are named {name!r}: name each once")


def _type_of(name: str, found: Mapping[Any, str]) -> str:
    """Chooses the type that holds a column's values of several types, each found in a file."""
    if not any(isinstance(kind, pyarrow.DataType) for kind in found):  # others have strings
        kinds = found.keys() - {"NoneType"}
        return next(kind for kind, (fitting, _) in _TYPES.items() if kinds <= fitting)
    (wide, first), *others = found.items()
    for kind, path in others:
        before, wide = wide, wider_type([wide, kind])
        if wide is None:
            raise TableError(
                path,
                f"the column {name!r} is {kind}, in {first} it is {before}: score them apart, or "
                "leave it out with --columns",
            )
    return base64.b64encode(pyarrow.schema([(name, wide)]).serialize()).decode()


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
            pyarrow.array([to_cell(row[index], column) for row in values], column.kind)
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
