"""Reads Parquet files by ranges of rows."""

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from itertools import accumulate
from typing import Any, BinaryIO

import pyarrow
from pyarrow import parquet

from model.errors import TableError
from model.tables.columns import partitions
from model.tables.lines import reason
from model.tables.pieces import Piece, Rows, Scan, TableFile
from model.tables.values import NotText, text_fault

_MAGIC = b"PAR1"
_SPARK = b"org.apache.spark.version"
_BATCH_ROWS = 64  # few, since a file may hold a long text once for many rows
_MOST_ROWS = 100_000  # of a piece
_MOST_CLAIMED_ROWS = 10**10
_MOST_BYTES = 256 * 1024**2  # of a piece, or of what is packed more than any text is
_BUFFER_BYTES = 1024 * 1024


class ParquetTable:
    """A Parquet file, with the columns that its folders name; TableError if it is damaged.

    `kinds` are types of columns by their names, to be read as; one that the file lacks is null.
    """

    def __init__(self, file: TableFile, *, kinds: Mapping[str, Any] | None = None) -> None:
        self.file = file
        self._path = file.path
        self._stream = file.open()
        self._kinds = kinds or {}
        try:
            self.footer_sha256 = hashlib.sha256(_footer(self._stream)).hexdigest()
            self._stream.seek(0)
            metadata = parquet.read_metadata(self._stream)
            self._file = parquet.ParquetFile(
                self._stream,
                metadata=metadata,
                buffer_size=_BUFFER_BYTES,
                # Its times of 96 bits have microseconds, and years beyond those of nanoseconds.
                coerce_int96_timestamp_unit="us" if _SPARK in (metadata.metadata or {}) else None,
            )
            self._own = frozenset(self._file.schema_arrow.names)
        except (pyarrow.ArrowException, OSError, ValueError) as error:
            self._stream.close()
            raise _damaged(self._path, error) from error
        self._partitions = partitions(self._path)

    def close(self) -> None:
        """Closes the file."""
        with suppress(pyarrow.ArrowException, OSError):
            self._file.close()
        self._stream.close()

    @property
    def schema(self) -> Any:  # noqa: ANN401
        """The columns, all kinds of strings alike, and metadata of writers; names may repeat."""
        try:
            schema = self._file.schema_arrow
            own = [(field.name, _plain_type(field.type)) for field in schema]
            own += [(name, pyarrow.string()) for name in self._partitions if name not in self._own]
            return pyarrow.schema(own, metadata=schema.metadata)
        except UnicodeDecodeError as error:
            raise TableError(self._path, "the name of a column is not UTF-8") from error

    def scan(self, piece_bytes: int) -> Scan:
        """Divides the table by its row groups; the pieces have no digests yet."""
        del piece_bytes
        names, types = tuple(self.schema.names), {each.name: {each.type} for each in self.schema}
        scan = Scan(self.footer_sha256, names, names, types=types)
        for group, rows in enumerate(self.group_rows):
            for start in range(0, rows, _MOST_ROWS):
                end = min(rows, start + _MOST_ROWS)
                place = {"row_group": group, "start": start, "end": end}
                first = scan.rows + start + 1
                scan.pieces.append(Piece(**place, first_row=first, rows=end - start))
            scan.rows += rows
        return scan

    def read(self, piece: Piece, text: str, columns: Sequence[str]) -> Rows:
        """Reads the rows of a piece; TableError if they cannot be read, or their digest changed."""
        names = list(dict.fromkeys([text, *columns]))
        group = piece.row_group or 0
        if piece.sha256 and piece.sha256 != self.digest(names, row_group=group):
            raise self.file.changed()
        table = self.read_range(names, row_group=group, start=piece.start, end=piece.end)
        kept, bad = cast(table.select(columns), self._kinds)
        rows = Rows(values=kept)
        for index, value in enumerate(texts_of(table[text])):
            rows.add(piece.first_row + index, value, text_fault(value) or bad.get(index))
        return rows

    @property
    def group_rows(self) -> list[int]:
        """The number of rows of each row group."""
        metadata = self._file.metadata
        rows = [metadata.row_group(group).num_rows for group in range(metadata.num_row_groups)]
        if not 0 <= sum(rows) <= _MOST_CLAIMED_ROWS or min(rows, default=0) < 0:
            raise _damaged(self._path, ValueError(f"it says that it has {sum(rows):,} rows"))
        return rows

    def read_range(self, columns: Sequence[str], *, row_group: int, start: int, end: int) -> Any:  # noqa: ANN401
        """Reads a range of rows of a row group, or raises TableError."""
        batches = []
        at = size = 0
        stored = [name for name in columns if name in self._own] or self.schema.names[:1]
        # Files of one job may keep strings in different ways.
        kinds = [_plain_type(self._file.schema_arrow.field(name).type) for name in stored]
        schema = pyarrow.schema(list(zip(stored, kinds, strict=True)))
        claimed = self._file.metadata.row_group(row_group).total_byte_size
        self._check_size(claimed if claimed > 1_000 * self._stream.seek(0, 2) else 0)
        try:
            for batch in self._file.iter_batches(
                _BATCH_ROWS, row_groups=[row_group], columns=stored, use_threads=False
            ):
                first, last = max(start - at, 0), min(end - at, batch.num_rows)
                if first < last:
                    batches.append(batch.slice(first, last - first).cast(schema))
                    size += batches[-1].nbytes
                    self._check_size(size)
                at += batch.num_rows
                if at >= end:
                    break
            table = pyarrow.Table.from_batches(batches, schema).combine_chunks()
            for name in set(columns) - self._own:
                kind = self._kinds.get(name, pyarrow.string())
                value, count = self._partitions.get(name), table.num_rows
                column = pyarrow.nulls(count, kind)
                if value is not None:
                    column = pyarrow.array([value] * count, kind)
                table = table.append_column(name, column)
            table = table.select(list(columns))
        except (pyarrow.ArrowException, OSError, ValueError) as error:
            raise _damaged(self._path, error, f"row group {row_group + 1}: ") from error
        if table.num_rows != end - start:
            raise _damaged(self._path, ValueError(f"row group {row_group + 1} has fewer rows"))
        return table

    def digest(self, columns: Sequence[str], *, row_group: int) -> str:
        """Digests the stored bytes of columns; most files hold no checksums of their own."""
        digest = hashlib.sha256()
        names = set(columns)
        group = self._file.metadata.row_group(row_group)
        try:
            for chunk in map(group.column, range(group.num_columns)):
                steps = chunk.path_in_schema.split(".")
                if not names.isdisjoint(accumulate(steps, "{}.{}".format)):
                    self._stream.seek(chunk.dictionary_page_offset or chunk.data_page_offset)
                    left = chunk.total_compressed_size
                    while left and (block := self._stream.read(min(left, _BUFFER_BYTES))):
                        digest.update(block)
                        left -= len(block)
        except OSError as error:
            raise _damaged(self._path, error) from error
        return digest.hexdigest()

    def _check_size(self, size: int) -> None:
        if size > _MOST_BYTES:
            fault = f"{_MOST_ROWS:,} rows have more than {_MOST_BYTES:,} bytes"
            raise TableError(self._path, f"{fault}: write smaller row groups")


def wider_type(kinds: Sequence[Any]) -> Any:  # noqa: ANN401
    """Returns the type that holds the values of several; None if there is none."""
    types = pyarrow.types
    if any(map(types.is_decimal, kinds)):
        if any(map(types.is_floating, kinds)):
            return None  # digits would be lost
        kinds = [pyarrow.decimal128(20) if types.is_integer(kind) else kind for kind in kinds]
    schemas = [pyarrow.schema([("column", kind)]) for kind in kinds]
    try:
        wide = pyarrow.unify_schemas(schemas, promote_options="permissive").field("column").type
        for kind in kinds:
            pyarrow.nulls(0, kind).cast(wide)  # fails where no value could be cast
    except pyarrow.ArrowException:
        return None
    return wide


def cast(table: Any, kinds: Mapping[str, Any]) -> tuple[Any, dict[int, str]]:  # noqa: ANN401
    """Returns columns of a pyarrow.Table in other types, by their names.

    Also why rows cannot be written, by their indices: such values are null.
    """
    found: dict[int, str] = {}
    for index, name in enumerate(table.column_names):
        column = table.column(index)
        kind = kinds.get(name, column.type)
        if not _fits(column, kind):
            bad = list(_failing(column, kind, range(len(column))))
            fault = "is not UTF-8" if kind == column.type else f"does not fit {kind}"
            found = dict.fromkeys(bad, f"the column {name!r} holds a value that {fault}") | found
            pieces = [column.slice(row, 1) for row in range(len(column))]
            for row in bad:
                pieces[row] = pyarrow.chunked_array([pyarrow.nulls(1, column.type)])
            chunks = [chunk for piece in pieces for chunk in piece.chunks]
            column = pyarrow.chunked_array(chunks, column.type)
        table = table.set_column(index, name, column if kind == column.type else column.cast(kind))
    return table, found


def _fits(column: Any, kind: Any) -> bool:  # noqa: ANN401
    try:
        column.validate(full=True)
        return kind == column.type or column.cast(kind) is not None
    except pyarrow.ArrowInvalid:
        return False


def texts_of(column: Any) -> list[object]:  # noqa: ANN401
    """Returns strings, or bytes where they are not UTF-8; values of another type as `NotText`."""
    try:
        return list(map(_decoded, column.cast(pyarrow.large_binary()).to_pylist()))
    except pyarrow.ArrowNotImplementedError:
        other = NotText(str(column.type))
        return [None if null else other for null in column.is_null().to_pylist()]


def labels_of(column: Any) -> list[object]:  # noqa: ANN401
    """Returns the values of a column of labels: numbers as they are, others as `texts_of`."""
    kind, types = column.type, pyarrow.types
    if types.is_decimal(kind):
        values = column.to_pylist()
        whole = {each: int(each) for each in values if each is not None and each == int(each)}
        return [whole.get(each, each and float(each)) for each in values]
    if types.is_integer(kind) or types.is_floating(kind) or types.is_boolean(kind):
        return [each if each == each else None for each in column.to_pylist()]  # NaN is none
    return texts_of(column)


def _decoded(value: bytes | None) -> object:
    with suppress(UnicodeDecodeError):
        return value if value is None else value.decode()
    return value


def _plain_type(kind: Any) -> Any:  # noqa: ANN401
    """Returns the type of strings for each of its kinds; that of the values of a dictionary."""
    types = pyarrow.types
    kind = kind.value_type if types.is_dictionary(kind) else kind
    is_string = types.is_large_string(kind) or types.is_string_view(kind)
    return pyarrow.string() if is_string else kind


def _failing(column: Any, kind: Any, rows: range) -> Iterator[int]:  # noqa: ANN401
    """Finds the rows with values that do not fit by halves: most rows are good."""
    chunks = column.slice(rows.start, len(rows)).chunks
    # A slice of lists would be validated with the values of all other lists, a copy with its own.
    if not _fits(pyarrow.concat_arrays([*chunks, chunks[0].slice(0, 0)]), kind):
        half = len(rows) // 2
        if not half:
            yield from rows
            return
        yield from _failing(column, kind, rows[:half])
        yield from _failing(column, kind, rows[half:])


def _footer(stream: BinaryIO) -> bytes:
    """Returns the footer of a Parquet file, which says where everything else is."""
    size = stream.seek(0, 2)
    stream.seek(max(0, size - 8))
    tail = stream.read(8)
    length = int.from_bytes(tail[:4], "little")
    if len(tail) < 8 or tail[4:] != _MAGIC or length > size - 8:
        raise ValueError("its end is missing")
    stream.seek(size - 8 - length)
    return stream.read(length + 8)


def _damaged(path: str, error: Exception, place: str = "") -> TableError:
    if isinstance(error, OSError) and error.errno:
        return TableError(path, f"cannot be read: {reason(error)}")
    if isinstance(error, UnicodeDecodeError):
        return TableError(path, "the name of a column is not UTF-8")
    kept = isinstance(error, pyarrow.ArrowNotImplementedError)
    fault = "cannot be read" if kept else "is not a whole Parquet file"
    return TableError(path, f"{fault}: {place}{reason(error)}")
