"""Divides input files into parts, and chooses their columns; the same files give the same parts."""

from collections import Counter
from collections.abc import Collection, Sequence
from contextlib import closing

from model.errors import TableError
from model.tables.columns import Columns, choose_text_column, find, show
from model.tables.parquet import ParquetTable, wider_type
from model.tables.pieces import Piece, Scan, TableFile
from model.tables.table import Table, open_table
from scoring.errors import ScoringError
from scoring.inputs import InputFile
from scoring.manifest import (
    Column,
    ColumnType,
    Manifest,
    Model,
    OutputFormat,
    Source,
    Unit,
    added_columns,
)

PART_BYTES = 8 * 1024 * 1024
_RENAMED = "input_"
#: types of JSON values, and the type of a column that has only these
_TYPES: tuple[tuple[frozenset[str], ColumnType], ...] = (
    (frozenset({"str"}), "string"),
    (frozenset({"int", "long"}), "integer"),
    (frozenset({"int", "float"}), "number"),
    (frozenset({"bool"}), "boolean"),
)


def make_manifest(
    files: Sequence[InputFile],
    *,
    spelling: Columns,
    columns: Sequence[str] | None,
    output_format: OutputFormat,
    part_bytes: int,
    model: Model,
) -> Manifest:
    """Reads all files through once and divides them.

    Raises:
        TableError: a file cannot be read, or its columns do not fit those of the first one.
        ScoringError: two columns of the output would have one name.
    """
    tables = [file.table for file in files]
    scans = []
    for file in tables:
        with closing(open_table(file, spelling)) as table:
            scans.append(scan_table(table, spelling, part_bytes))
    text, kept = choose_columns(
        tables[0], scans, spelling=spelling, wanted=columns, added=added_columns(model)
    )
    used = [text, *(column.name for column in kept)]
    units: list[Unit] = []
    for index, (file, scan) in enumerate(zip(tables, scans, strict=True)):
        _check_columns(file, scan, text, kept, first=(tables[0], scans[0]))
        for piece in _with_digests(file, scan.pieces, used):
            units.append(Unit(number=len(units), source=index, **dict(piece)))
    return Manifest(
        sources=tuple(_source(*each, spelling) for each in zip(files, scans, strict=True)),
        units=tuple(units),
        text_column=text,
        columns=kept,
        output_format=output_format,
        part_bytes=part_bytes,
        model=model,
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


def digest(file: InputFile, source: Source) -> str:
    """Reads a file through as before, and returns the digest that `Source.sha256` holds."""
    spelling = Columns(
        text=source.header[0] if source.header else None,
        delimiter=source.delimiter,
        encoding=source.encoding,
        header=not source.no_header,
    )
    with closing(open_table(file.table, spelling)) as table:
        return table.scan(PART_BYTES).sha256


def _source(file: InputFile, scan: Scan, spelling: Columns) -> Source:
    table = file.table
    return Source(
        path=file.path,
        format=table.format,
        compression=table.compression,
        size=file.status.size,
        modified=file.status.modified,
        sha256=scan.sha256,
        header=() if table.format == "jsonl" else scan.names,
        rows=scan.rows,
        delimiter=scan.delimiter,
        encoding=None if table.format == "parquet" else spelling.encoding,
        no_header=table.format != "parquet" and not spelling.header,
    )


def _check_columns(
    file: TableFile,
    scan: Scan,
    text: str,
    kept: Sequence[Column],
    *,
    first: tuple[TableFile, Scan],
) -> None:
    """Rejects a file whose columns differ from those of the first one."""
    formats = {file.format, first[0].format}
    counts = Counter(scan.names)
    if len(formats) > 1 and formats != {"csv", "tsv"}:
        raise TableError(
            file.path, f"is {file.format}, {first[0].path} is {first[0].format}: score them apart"
        )
    if file.format == "jsonl":
        return  # a row without a key is judged by itself
    wide = {column.name for column in kept if column.wide is not None}
    for name in (text, *(column.name for column in kept)):
        if counts[name] != 1:
            raise TableError(
                file.path,
                f"{'two columns are' if counts[name] else 'no column is'} named {name!r} "
                f"among {show(scan.names)}, unlike in {first[0].path}: score them apart, or "
                "choose with --columns what both have",
            )
        types = [next(iter(each.types.get(name, {""}))) for each in (scan, first[1])]
        if name not in wide and types[0] != types[1]:
            raise TableError(
                file.path,
                f"the column {name!r} is {types[0]}, in {first[0].path} it is {types[1]}: score "
                "them apart, or leave it out with --columns",
            )


def _with_digests(file: TableFile, pieces: Sequence[Piece], used: Sequence[str]) -> Sequence[Piece]:
    """Adds to the pieces of a Parquet file the digests of the columns that are used."""
    if file.format != "parquet":
        return pieces
    with closing(ParquetTable(file)) as table:
        groups = {piece.row_group for piece in pieces if piece.row_group is not None}
        digests = {group: table.digest(used, row_group=group) for group in groups}
    return [
        piece.model_copy(update={"sha256": digests[piece.row_group]})
        for piece in pieces
        if piece.row_group is not None
    ]
