"""Reads the rows of a text file as bytes: a line, or in CSV the lines between two row ends.

The same code decides where to cut a file and reads the pieces, so a piece has the same rows.
"""

import csv
import hashlib
from collections.abc import Iterator
from dataclasses import dataclass
from typing import BinaryIO, Literal

from model.errors import TableError

Format = Literal["csv", "tsv", "jsonl", "parquet"]
Compression = Literal["gzip", "zstd"]
#: the longest row; a row that is longer is most likely a quote that is never closed
MOST_ROW_BYTES = 16 * 1024 * 1024
NOT_UTF8 = "is not UTF-8: convert the file to UTF-8"
_BLOCK_BYTES = 1024 * 1024
_BOM = b"\xef\xbb\xbf"
csv.field_size_limit(MOST_ROW_BYTES)


@dataclass(frozen=True, slots=True)
class RawRow:
    """One row as the file has it: its bytes with the line end, and its first line from 1.

    `cells` are None except for CSV that could be parsed; `error` is why it could not.
    """

    content: bytes
    line: int
    cells: list[str] | None = None
    error: str | None = None


def unpack(file: BinaryIO, path: str, compression: Compression | None) -> BinaryIO:
    """Returns the unpacked bytes of a file, to be read in order, or raises TableError."""
    import pyarrow

    if compression is None:
        return file
    try:
        return pyarrow.CompressedInputStream(pyarrow.PythonFile(file, "r"), compression)  # type: ignore[no-any-return]
    except OSError as error:
        raise TableError(path, f"cannot be unpacked as {compression}: {error}") from error


class LineReader:
    """Reads lines of unpacked bytes, and knows its position and the digest of what it has read."""

    def __init__(self, path: str, stream: BinaryIO, compression: Compression | None = None) -> None:
        self.position = 0
        self.line = 1
        self.digest = hashlib.sha256()
        self._path = path
        self._stream = stream
        self._compression = compression
        self._buffer = b""
        self._at = 0
        self._end = b""

    def skip_to(self, position: int, line: int) -> None:
        """Goes to a position where a row begins; a compressed file is read up to it."""
        if self._compression is None:
            if not self._end:
                self._fill()  # the beginning says how lines end
            self._stream.seek(position)
            self._buffer, self._at = b"", 0
        else:
            left = position - self.position
            while left:
                held = len(self._buffer) - self._at
                if not held and not self._fill():
                    raise TableError(self._path, "is shorter than it was: it has changed")
                step = min(left, len(self._buffer) - self._at)
                self._at += step
                left -= step
        self.position, self.line = position, line

    def __iter__(self) -> Iterator[bytes]:
        """Yields lines with their ends, the last one perhaps without."""
        while line := self._next():
            self.position += len(line)
            self.line += 1
            yield line

    def _next(self) -> bytes:
        pieces = []
        length = 0
        while True:
            end = self._buffer.find(self._end or b"\n", self._at)
            piece = self._buffer[self._at : end + 1 if end >= 0 else len(self._buffer)]
            self._at += len(piece)
            pieces.append(piece)
            length += len(piece)
            if length > MOST_ROW_BYTES:
                raise TableError(
                    self._path,
                    f"row {self.line}: the line is longer than {MOST_ROW_BYTES:,} bytes, the most "
                    "that is read: split the file into lines",
                )
            if end >= 0 or not self._fill():
                return b"".join(pieces) if len(pieces) > 1 else piece

    def _fill(self) -> bool:
        try:
            self._buffer, self._at = bytes(self._stream.read(_BLOCK_BYTES)), 0
        except OSError as error:
            if self._compression is None or error.errno:
                raise TableError(self._path, f"cannot be read: {reason(error)}") from error
            raise TableError(
                self._path, f"is not a whole {self._compression} file: {reason(error)}"
            ) from error
        if not self._end:
            is_old = b"\n" not in self._buffer and b"\r" in self._buffer[:-1]
            self._end = b"\r" if is_old else b"\n"
        self.digest.update(self._buffer)
        return bool(self._buffer)

    def close(self) -> None:
        """Closes the stream."""
        self._stream.close()


def read_raw(reader: LineReader, path: str, file_format: Format) -> Iterator[RawRow]:
    """Reads rows from where the reader is; leaves out blank lines between them."""
    lines = iter(reader)
    for line in lines:
        number = reader.line - 1
        content = line.removeprefix(_BOM) if number == 1 else line
        if not (content.strip() if file_format == "jsonl" else content.rstrip(b"\r\n")):
            continue
        if file_format == "csv":
            yield _csv_row(content, number, lines, path)
        else:
            yield RawRow(content, number)


def _csv_row(first: bytes, number: int, lines: Iterator[bytes], path: str) -> RawRow:
    """Reads one CSV row, which takes further lines while a quote is open."""
    taken = [first]

    def feed() -> Iterator[str]:
        yield to_text(first)
        length = len(first)
        for line in lines:
            taken.append(line)
            length += len(line)
            if length > MOST_ROW_BYTES:
                break
            yield to_text(line)
        raise TableError(
            path,
            f"row {number}: a quote is opened and never closed: close it, or write a quote inside "
            'a field twice ("")',
        )

    try:
        cells = next(csv.reader(feed(), strict=True))
    except csv.Error as error:
        return RawRow(b"".join(taken), number, error=f"is not CSV: {error}")
    return RawRow(b"".join(taken) if len(taken) > 1 else first, number, cells=cells)


def to_text(line: bytes) -> str:
    """Decodes UTF-8; bytes that are something else become lone surrogates."""
    return line.decode("utf-8", errors="surrogateescape")


def split_tsv(content: bytes) -> list[str]:
    """Splits a line of a TSV file, in which a quote is text."""
    return to_text(content).removesuffix("\n").removesuffix("\r").split("\t")


def reason(error: Exception) -> str:
    """Returns the reason of an error in one line; only the system's words of its errors."""
    system = error.strerror if isinstance(error, OSError) else None
    return system or first_line(error)


def first_line(error: Exception) -> str:
    """Returns the first line of another package's message."""
    return str(error).partition("\n")[0].removesuffix(".")
