"""Divides input files into units of work; the same files give the same units."""

import hashlib
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field

from model.tables.columns import Columns, choose_text_column, show
from model.tables.headers import read_header
from model.tables.lines import LineReader
from model.tables.parquet import ParquetInput, wider_type
from model.tables.raw_rows import RawRow, is_utf8, read_raw
from model.tables.values import read_record
from scoring.columns import choose_columns, column_type
from scoring.errors import InputFileError
from scoring.inputs import InputFile
from scoring.output.manifest import (
    Column,
    ColumnType,
    Manifest,
    Model,
    OutputFormat,
    Source,
    Unit,
    added_columns,
)
from scoring.stores import store_of

PART_BYTES = 8 * 1024 * 1024
_MOST_PARQUET_ROWS = 100_000
_MOST_KEYS = 1_000


@dataclass(slots=True)
class _Scanned:
    """The result of reading a file through once; units are as if it were the only file.

    `kinds` are value types of each key of JSON Lines; `schema` has column types of Parquet.
    """

    sha256: str
    header: tuple[str, ...]
    rows: int
    units: list[Unit]
    delimiter: str = ","
    encoding: str | None = None
    no_header: bool = False
    kinds: dict[str, set[str]] = field(default_factory=dict)
    schema: dict[str, str] = field(default_factory=dict)


def make_manifest(
    files: Sequence[InputFile],
    *,
    text_column: str | None,
    columns: Sequence[str] | None,
    output_format: OutputFormat,
    part_bytes: int,
    model: Model,
    delimiter: str | None = None,
    encoding: str | None = None,
    no_header: bool = False,
    added: tuple[str, ...] | None = None,
) -> Manifest:
    """Reads all files through once and divides them.

    Args:
        added: names of the columns that the answers add, if not those of a part.

    Raises:
        InputFileError: a file cannot be read, or its columns do not fit those of the first one.
        OptionError: two columns of the output would have one name.
    """
    spelling = Columns(
        text=text_column, delimiter=delimiter, encoding=encoding, header=not no_header
    )
    scans = [_scan(file, part_bytes, spelling) for file in files]
    names = _choose_names(files, scans)
    text = choose_text_column(files[0].path, [name for name, _ in names], text_column)
    kept = choose_columns(files[0].path, names, wanted=columns, added=added or added_columns(model))
    kept = _widen(kept, scans)
    used = [text, *(column.name for column in kept)]
    units: list[Unit] = []
    for index, (file, scanned) in enumerate(zip(files, scans, strict=True)):
        _check_columns(file, scanned, text, kept, first=(files[0], scans[0]))
        for unit in _with_digests(file, scanned.units, used):
            units.append(unit.model_copy(update={"number": len(units), "source": index}))
    return Manifest(
        sources=tuple(map(_source, files, scans)),
        units=tuple(units),
        text_column=text,
        columns=kept,
        output_format=output_format,
        part_bytes=part_bytes,
        model=model,
    )


def digest(file: InputFile, source: Source) -> str:
    """Reads a file through as before, and returns the digest that `Source.sha256` holds."""
    spelling = Columns(
        text=source.header[0] if source.header else None,
        delimiter=source.delimiter,
        encoding=source.encoding,
        header=not source.no_header,
    )
    return _scan(file, PART_BYTES, spelling).sha256


def _scan(file: InputFile, part_bytes: int, spelling: Columns) -> _Scanned:
    if file.format == "parquet":
        return _scan_parquet(file)
    return _TextScan(file, part_bytes, spelling).run()


def _widen(kept: Sequence[Column], scans: Sequence[_Scanned]) -> tuple[Column, ...]:
    """Gives each column of Parquet files the type that holds the values of all of them."""
    widened = []
    for column in kept:
        types = {scanned.schema[column.name] for scanned in scans if column.name in scanned.schema}
        wide = wider_type(types) if len(types) > 1 else None
        widened.append(column.model_copy(update={"wide": wide}))
    return tuple(widened)


def _source(file: InputFile, scanned: _Scanned) -> Source:
    return Source(
        path=file.path,
        format=file.format,
        compression=file.compression,
        size=file.status.size,
        modified=file.status.modified,
        sha256=scanned.sha256,
        header=scanned.header,
        rows=scanned.rows,
        delimiter=scanned.delimiter,
        encoding=scanned.encoding,
        no_header=scanned.no_header,
    )


def _choose_names(
    files: Sequence[InputFile], scans: Sequence[_Scanned]
) -> list[tuple[str, ColumnType | None]]:
    """Returns names and types of the columns: those of the first file, of JSON Lines all keys."""
    first = files[0].format
    if first != "jsonl":
        kind: ColumnType | None = None if first == "parquet" else "string"
        return [(name, kind) for name in scans[0].header]
    kinds: dict[str, set[str]] = {}
    for scanned in scans:
        for name, seen in scanned.kinds.items():
            kinds.setdefault(name, set()).update(seen)
    return [(name, column_type(frozenset(seen - {"NoneType"}))) for name, seen in kinds.items()]


def _check_columns(
    file: InputFile,
    scanned: _Scanned,
    text: str,
    kept: Sequence[Column],
    *,
    first: tuple[InputFile, _Scanned],
) -> None:
    """Rejects a file whose columns differ from those of the first one."""
    kinds = {file.format, first[0].format}
    counts = Counter(scanned.header)
    if len(kinds) > 1 and kinds != {"csv", "tsv"}:
        raise InputFileError(
            file.path, f"is {file.format}, {first[0].path} is {first[0].format}: score them apart"
        )
    if file.format == "jsonl":
        return  # a row without a key is judged by itself
    wide = {column.name for column in kept if column.wide is not None}
    for name in (text, *(column.name for column in kept)):
        if counts[name] != 1:
            raise InputFileError(
                file.path,
                f"{'two columns are' if counts[name] else 'no column is'} named {name!r} "
                f"among {show(scanned.header)}, unlike in {first[0].path}: score them apart, or "
                "choose with --columns what both have",
            )
        if name not in wide and scanned.schema.get(name) != first[1].schema.get(name):
            raise InputFileError(
                file.path,
                f"the column {name!r} is {scanned.schema[name]}, in {first[0].path} it is "
                f"{first[1].schema[name]}: score them apart, or leave it out with --columns",
            )


class _TextScan:
    """Reads a text file through: finds cuts, counts rows, learns names and types of columns."""

    def __init__(self, file: InputFile, part_bytes: int, spelling: Columns) -> None:
        self._file = file
        self._spelling = spelling
        self._part_bytes = part_bytes
        self._kinds: dict[str, set[str]] = {}
        self._units: list[Unit] = []
        self._digest = hashlib.sha256()
        self._start = (0, 1)
        self._rows = 0
        self._garbled = 0

    def run(self) -> _Scanned:
        path, file_format = self._file.path, self._file.format
        file = store_of(path).open(path)
        reader = LineReader(
            path,
            file,
            self._file.compression,
            self._spelling.encoding,
            of_json=file_format == "jsonl",
        )
        header: tuple[str, ...] = ()
        delimiter = ","
        rows = 0
        try:
            if file_format != "jsonl":
                header, delimiter = read_header(reader, path, file_format, self._spelling)
                self._start = (reader.position, reader.line)
            for row in read_raw(reader, path, file_format, delimiter):
                rows += 1
                self._add(row, reader)
        finally:
            reader.close()
        if 2 * self._garbled > rows:
            raise InputFileError(
                path,
                f"{self._garbled:,} of {rows:,} rows are not {self._spelling.encoding or 'UTF-8'}: "
                "name the encoding, such as --encoding cp1252",
            )
        if self._rows:
            self._cut(reader)
        return _Scanned(
            reader.digest.hexdigest(),
            header,
            rows,
            self._units,
            delimiter,
            self._spelling.encoding,
            no_header=not self._spelling.header,
            kinds=self._kinds,
        )

    def _add(self, row: RawRow, reader: LineReader) -> None:
        self._rows += 1
        self._garbled += not is_utf8(row.content)
        self._digest.update(row.content)
        if self._file.format == "jsonl":
            self._learn(row)
        if reader.position - self._start[0] >= self._part_bytes:
            self._cut(reader)

    def _learn(self, row: RawRow) -> None:
        try:
            record = read_record(row.content)
        except ValueError:
            return
        for name, value in record.items():
            self._kinds.setdefault(name, set()).add(_kind(value))
        if len(self._kinds) > _MOST_KEYS:
            raise InputFileError(
                self._file.path,
                f"has more than {_MOST_KEYS:,} different keys, the most that become columns: put "
                "values under one key",
                row=row.line,
            )

    def _cut(self, reader: LineReader) -> None:
        """Ends a unit behind the last row."""
        start, line = self._start
        self._units.append(
            Unit(
                number=0,
                source=0,
                start=start,
                end=reader.position,
                row_group=None,
                first_row=line,
                rows=self._rows,
                sha256=self._digest.hexdigest(),
            )
        )
        self._start = (reader.position, reader.line)
        self._rows = 0
        self._digest = hashlib.sha256()


def _kind(value: object) -> str:
    if type(value) is not int:
        return type(value).__name__
    if -(2**53) <= value <= 2**53:
        return "int"  # also a float64
    return "long" if -(2**63) <= value < 2**63 else "big"


def _scan_parquet(file: InputFile) -> _Scanned:
    units: list[Unit] = []
    before = 0
    with ParquetInput(file.path, store_of(file.path).open(file.path)) as parquet:
        for group, rows in enumerate(parquet.group_rows):
            for start in range(0, rows, _MOST_PARQUET_ROWS):
                end = min(rows, start + _MOST_PARQUET_ROWS)
                units.append(
                    Unit(
                        number=0,
                        source=0,
                        start=start,
                        end=end,
                        row_group=group,
                        first_row=before + start + 1,
                        rows=end - start,
                        sha256="",
                    )
                )
            before += rows
        types = parquet.types
        names = tuple(name for name, _ in types)
        return _Scanned(parquet.footer_sha256, names, before, units, schema=dict(types))


def _with_digests(file: InputFile, units: Sequence[Unit], used: Sequence[str]) -> Sequence[Unit]:
    """Adds to the units of a Parquet file the digests of the columns that are used."""
    if file.format != "parquet":
        return units
    with ParquetInput(file.path, store_of(file.path).open(file.path)) as parquet:
        groups = {unit.row_group for unit in units if unit.row_group is not None}
        digests = {group: parquet.digest(used, row_group=group) for group in groups}
    return [
        unit.model_copy(update={"sha256": digests[unit.row_group]})
        for unit in units
        if unit.row_group is not None
    ]
