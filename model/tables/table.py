"""Reads a table of any form: its columns, and its rows from one position to another.

`fit`, `evaluate` and `headlight-score` read by it alike.
"""

import csv
import hashlib
import io
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, NamedTuple, Union

from model.errors import TableError
from model.tables.columns import Columns, partitions
from model.tables.headers import read_header
from model.tables.lines import LineReader, import_pyarrow
from model.tables.pieces import Piece, Rows, Scan, TableFile
from model.tables.raw_rows import RawRow, cells_of, is_utf8, read_raw, to_text
from model.tables.values import MISSING, read_cells, read_record, text_fault

if TYPE_CHECKING:
    from model.tables.parquet import ParquetTable

_MOST_KEYS = 1_000
_NULL = r"\N"  # what Hive, Snowflake and MySQL write for null
_GUESSED = Columns()

Table = Union["TextTable", "ParquetTable"]


class TableRow(NamedTuple):
    """A row: its number, its bytes, the values of some columns, and why they cannot be read."""

    number: int
    content: bytes
    values: list[object]
    fault: str | None


def open_table(file: TableFile, spelling: Columns = _GUESSED) -> Table:
    """Opens a table; TableError if it cannot be read, is damaged, or pyarrow is missing."""
    if file.format != "parquet":
        return TextTable(file, spelling)
    import_pyarrow(file.path, "Parquet")
    from model.tables.parquet import ParquetTable

    return ParquetTable(file)


class TextTable:
    """A table of CSV, TSV or JSON, with the columns that its folders name.

    It reads on in the file that is open, but no header if `header`, its names, and `delimiter` are
    given. All methods raise TableError for what cannot be read.
    """

    def __init__(
        self,
        file: TableFile,
        spelling: Columns,
        *,
        header: tuple[str, ...] | None = None,
        delimiter: str = ",",
    ) -> None:
        self.file = file
        self.delimiter = delimiter
        self._spelling = spelling
        self._header = header
        self._partitions = partitions(file.path)
        self._start = (0, 1)
        self._reader: LineReader | None = None
        self._is_json = file.format == "jsonl"

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the columns; JSON has those that `scan` found."""
        own = self._read_header()
        return (*own, *(name for name in self._partitions if name not in own))

    def scan(self, piece_bytes: int) -> Scan:
        """Reads a new table through, and divides it into pieces of about so many bytes."""
        scan = Scan()
        self._read_header()
        reader = self._reader_at(*self._start)
        start, line = self._start
        digest = hashlib.sha256()
        rows = 0

        def cut() -> None:
            kept = {"start": start, "end": reader.position, "first_row": line, "rows": rows}
            scan.pieces.append(Piece(**kept, sha256=digest.hexdigest()))
            scan.rows += rows

        for raw in read_raw(reader, self.file.path, self.file.format, self.delimiter):
            rows += 1
            scan.garbled += not is_utf8(raw.content)
            digest.update(raw.content)
            if self._is_json:
                self._learn(raw, scan.types)
            if reader.position - start >= piece_bytes:
                cut()
                start, line = reader.position, reader.line
                digest, rows = hashlib.sha256(), 0
        if rows:
            cut()
        scan.sha256 = reader.digest.hexdigest()
        self.close()
        if self._is_json:
            self._header = tuple(scan.types)
            for name, value in self._partitions.items():
                scan.types.setdefault(name, set()).add(_type_of(value))
        scan.header = () if self._is_json else self._read_header()
        scan.names, scan.delimiter = self.names, self.delimiter
        return scan

    def read(self, piece: Piece, text: str, columns: Sequence[str]) -> Rows:
        """Reads the rows of a piece: the texts, and the values of some columns."""
        rows = Rows()
        contents = []
        for number, content, (value, *kept), fault in self.rows([text], columns, piece):
            contents.append(content)
            rows.add(number, value, fault or text_fault(value))
            rows.values.append(kept)
        digest = hashlib.sha256(b"".join(contents)).hexdigest()
        if len(rows.numbers) != piece.rows or digest != piece.sha256:
            self.close()
            raise self.file.changed()
        return rows

    def rows(
        self, needed: Sequence[str], others: Sequence[str] = (), piece: Piece | None = None
    ) -> Iterator[TableRow]:
        """Yields rows with the values of columns; one that lacks a `needed` one is at fault."""
        parse = self._parser(needed, others)
        start = self._start if piece is None else (piece.start, piece.first_row)
        reader = self._reader_at(*start)
        try:
            for raw in read_raw(reader, self.file.path, self.file.format, self.delimiter):
                yield TableRow(raw.line, raw.content, *parse(raw))
                if piece is not None and reader.position >= piece.end:
                    return
        except TableError:
            self.close()
            raise

    def close(self) -> None:
        """Closes the file; it is opened again for what is read next."""
        if self._reader is not None:
            self._reader.close()
            self._reader = None

    def _read_header(self) -> tuple[str, ...]:
        if self._header is None and not self._is_json:
            reader = self._reader_at(*self._start)
            self._header, self.delimiter = read_header(
                reader, self.file.path, self.file.format, self._spelling
            )
            self._start = (reader.position, reader.line)
        return self._header or ()

    def _reader_at(self, position: int, line: int) -> LineReader:
        """Goes on in the file that is open, or opens it again."""
        if self._reader is not None and self._reader.position > position:
            self.close()
        if self._reader is None:
            self._reader = LineReader(
                self.file.path,
                self.file.open(),
                self.file.compression,
                self._spelling.encoding,
                of_json=self._is_json,
                sheet=self._spelling.sheet,
            )
        if self._reader.position != position:
            self._reader.skip_to(position, line)
        return self._reader

    def _learn(self, raw: RawRow, types: dict[str, set[str]]) -> None:
        """Adds the keys of an object of JSON and the types of their values."""
        try:
            record = read_record(raw.content)
        except ValueError:
            return
        for name, value in record.items():
            types.setdefault(name, set()).add(_type_of(value))
        if len(types) > _MOST_KEYS:
            raise TableError(
                self.file.path,
                f"has more than {_MOST_KEYS:,} different keys, the most that become columns: put "
                "values under one key",
                row=raw.line,
            )

    def _parser(
        self, needed: Sequence[str], others: Sequence[str]
    ) -> Callable[[RawRow], tuple[list[object], str | None]]:
        """Returns what finds the values of columns in a row, and why they cannot be read."""
        names = [*needed, *others]
        constants = [self._partitions.get(name, MISSING) for name in names]

        def parse_json(raw: RawRow) -> tuple[list[object], str | None]:
            try:
                record = read_record(raw.content)
            except ValueError as error:
                return [MISSING] * len(names), str(error)
            values = [record.get(name, value) for name, value in zip(names, constants, strict=True)]
            known = {*record, *self._partitions}
            missing = " and ".join(repr(name) for name in needed if name not in known)
            return values, f"lacks {missing}" if missing else None

        def parse_cells(raw: RawRow) -> tuple[list[object], str | None]:
            fault = None
            try:
                cells = read_cells(raw, count)
            except ValueError as error:
                cells, fault = self._cells_of_bad(raw), str(error)
            values = [*cells, *constants]
            found = [values[at] for at in places]
            found[:least] = [None if each == _NULL else each for each in found[:least]]
            return found, fault

        if self._is_json:
            return parse_json
        own = self._read_header()
        count, least = len(own), len(needed)
        places = [own.index(name) if name in own else count + at for at, name in enumerate(names)]
        return parse_cells

    def _cells_of_bad(self, raw: RawRow) -> list[str]:
        """Divides a row that is at fault; cells beyond the header stay in the last column."""
        cells = cells_of(raw)
        if raw.error is not None:
            text = to_text(raw.content).rstrip("\r\n").replace("\r", " ")
            cells = next(csv.reader(io.StringIO(text), delimiter=self.delimiter), [])
        count = len(self._header or ())
        last = self.delimiter.join(cells[count - 1 :])
        cells = [*cells[: count - 1], last] + [""] * (count - max(len(cells), 1))
        return [
            cell.encode(errors="surrogateescape").decode(errors="backslashreplace")
            for cell in cells
        ]


def _type_of(value: object) -> str:
    if type(value) is not int:
        return type(value).__name__
    if -(2**53) <= value <= 2**53:
        return "int"  # also a float64
    return "long" if -(2**63) <= value < 2**63 else "big"
