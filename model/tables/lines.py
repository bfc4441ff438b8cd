"""Reads the lines of a text file as UTF-8, in whatever encoding and packing it is stored."""

import bz2
import codecs
import gzip
import hashlib
import json
import lzma
import re
import zipfile
import zlib
from collections.abc import Iterator
from contextlib import suppress
from itertools import chain
from pathlib import Path
from typing import Any, BinaryIO

from model.errors import TableError, install_hint
from model.tables.files import Compression, open_zip, zip_member
from model.tables.workbook import workbook_to_csv

NOT_UTF8 = (
    "is not UTF-8: convert the file to UTF-8, or name its encoding, such as --encoding cp1252"
)

#: the longest row; a row that is longer is most likely a quote that is never closed
MOST_ROW_BYTES = 16 * 1024 * 1024
_BLOCK_BYTES = 1024 * 1024
_ARRAY = re.compile(rb"(?:\xef\xbb\xbf)?\s*\[\s*(?:[{\]]|$)")
_VALUE = re.compile(r"[^\s,]")
# Longer ones first: the mark of UTF-32 begins with that of UTF-16.
_MARKS = {
    codecs.BOM_UTF32_LE: "utf-32",
    codecs.BOM_UTF32_BE: "utf-32",
    codecs.BOM_UTF16_LE: "utf-16",
    codecs.BOM_UTF16_BE: "utf-16",
}


class LineReader:
    """Reads lines as UTF-8, and knows its position and the digest of the unpacked bytes.

    `encoding` and `sheet` are as in `Columns`. The objects of an array stand on a line each, if it
    is `of_json`. All methods raise TableError for a file that cannot be read or unpacked.
    """

    def __init__(
        self,
        path: str | Path,
        file: BinaryIO,
        compression: Compression | None = None,
        encoding: str | None = None,
        *,
        of_json: bool = False,
        sheet: str | None = None,
    ) -> None:
        self.position = 0
        self.line = 1
        self.digest = hashlib.sha256()
        self._path = path
        self._file = file
        self._compression = compression
        self._at = 0
        #: what is known to separate the columns
        self.delimiter = "," if compression == "xlsx" else None
        try:
            self._stream = _unpack(file, path, compression, sheet)
            block = self._read_block()
            self._encoding = (encoding if compression != "xlsx" else None) or _detect(block)
            self._decoder = _decoder(self._encoding)
            self._buffer = self._recode(block)
            self._blocks = self._recoded()
            self._is_array = of_json and _ARRAY.match(self._buffer) is not None
            if self._is_array:
                self._blocks = _lines_of_array(path, chain([self._buffer], self._blocks))
                self._fill()
            is_old = b"\n" not in self._buffer and b"\r" in self._buffer[:-1]
            self._end = b"\r" if is_old else b"\n"
        except BaseException:
            file.close()
            raise

    def skip_to(self, position: int, line: int) -> None:
        """Goes to a position where a row begins; reads up to it where bytes are not as stored."""
        if self._compression is None and self._decoder is None and not self._is_array:
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

    def peek(self) -> bytes:
        """Returns the next bytes, at least a row of a table unless it is very long."""
        return self._buffer[self._at :]

    def push_back(self, line: bytes) -> None:
        """Takes back the line that was read last."""
        self._buffer, self._at = line + self._buffer[self._at :], 0
        self.position -= len(line)
        self.line -= 1

    def __iter__(self) -> Iterator[bytes]:
        """Yields lines with their ends, the last one perhaps without."""
        while line := self._next():
            self.position += len(line)
            self.line += 1
            yield line

    def _next(self) -> bytes:
        line = b""
        while True:
            end = self._buffer.find(self._end, self._at) + 1 or len(self._buffer)
            piece, self._at = self._buffer[self._at : end], end
            line = line + piece if line else piece
            if len(line) > MOST_ROW_BYTES:
                raise TableError(
                    self._path,
                    f"the line is longer than {MOST_ROW_BYTES:,} bytes, the most that is read: "
                    "split the file into lines",
                    row=self.line,
                )
            if line.endswith(self._end) or not self._fill():
                return line

    def _fill(self) -> bool:
        """Reads the next bytes; returns whether there are any."""
        self._buffer, self._at = next(self._blocks, b""), 0
        return bool(self._buffer)

    def _recoded(self) -> Iterator[bytes]:
        """Yields what is left of the file in blocks of UTF-8."""
        is_read = False
        while not is_read:
            is_read = not (block := self._read_block())
            if recoded := self._recode(block):
                yield recoded

    def _read_block(self) -> bytes:
        try:
            block = bytes(self._stream.read(_BLOCK_BYTES))
        except (OSError, EOFError, zlib.error, lzma.LZMAError, zipfile.BadZipFile) as error:
            fault = reason(error).partition(" (b")[0]  # gzip shows the bytes that it finds
            is_unread = self._compression is None or getattr(error, "errno", None)
            what = "cannot be read" if is_unread else f"is not a whole {self._compression} file"
            raise TableError(self._path, f"{what}: {fault}") from error
        self.digest.update(block)
        return block

    def _recode(self, block: bytes) -> bytes:
        """Returns the block in UTF-8; what no encoding has stays invalid, a fault of its row."""
        if self._decoder is not None:
            try:
                text = self._decoder.decode(block, final=not block)
            except UnicodeError as error:  # not of the bytes of one row
                raise TableError(
                    self._path, f"is not {self._encoding}: name its encoding with --encoding"
                ) from error
            return text.encode(errors=self._decoder.errors)
        return block

    def close(self) -> None:
        """Closes the file."""
        self._stream.close()
        self._file.close()


def _lines_of_array(path: str | Path, blocks: Iterator[bytes]) -> Iterator[bytes]:
    """Yields the values of a JSON array on a line each, as they are spelled."""
    decode = codecs.getincrementaldecoder("utf-8-sig")().decode
    try:
        text = decode(next(blocks))
        at = text.index("[") + 1
        is_whole = False
        while True:
            lines = []
            while found := not is_whole and _find_value(text, at):
                value, at = found
                lines.append(value.replace("\r", " ").replace("\n", " ") + "\n")
                is_whole = value == "]"
            if lines := lines[: len(lines) - is_whole]:
                yield "".join(lines).encode()
            block = next(blocks, b"")
            if not block and is_whole and not text[at:].strip():
                return
            if not block or len(text) - at > MOST_ROW_BYTES:
                raise TableError(path, "is not a whole JSON array: write it again")
            text, at = text[at:] + decode(block), 0
    except UnicodeDecodeError as error:
        raise TableError(path, NOT_UTF8) from error


def _find_value(text: str, at: int) -> tuple[str, int] | None:
    """Returns the next value of an array or its bracket, and its end; None if more may follow."""
    begin = found.start() if (found := _VALUE.search(text, at)) else len(text)
    if text.startswith("]", begin):
        return "]", begin + 1
    with suppress(ValueError, RecursionError):
        _, end = json.JSONDecoder().raw_decode(text, begin)
        return (text[begin:end], end) if end < len(text) else None
    return None


def _unpack(
    file: BinaryIO, path: str | Path, compression: Compression | None, sheet: str | None
) -> BinaryIO:
    if compression is None:
        return file
    if compression == "gzip":  # ignores zeros behind a member, unlike that of pyarrow
        return gzip.GzipFile(fileobj=file)  # type: ignore[return-value]
    if compression == "bz2":
        return bz2.BZ2File(file)  # type: ignore[return-value]
    if compression == "zip":
        archive = open_zip(path, file)
        try:
            return archive.open(zip_member(path, archive))  # type: ignore[return-value]
        except (RuntimeError, zipfile.BadZipFile) as error:
            fault = "is encrypted, or packed in a way that is not read"
            raise TableError(path, f"{fault}: unpack it, and name the file") from error
    if compression == "xlsx":
        return workbook_to_csv(path, file, sheet)
    pyarrow = import_pyarrow(path, f"a {compression} file")
    try:
        return pyarrow.CompressedInputStream(pyarrow.PythonFile(file, "r"), compression)  # type: ignore[no-any-return]
    except OSError as error:
        raise TableError(path, f"cannot be unpacked as {compression}: {reason(error)}") from error


def import_pyarrow(path: str | Path, what: str) -> Any:  # noqa: ANN401
    """Returns pyarrow, or raises TableError with the command that installs it."""
    try:
        import pyarrow
    except ImportError as error:
        raise TableError(
            path, f"{what} needs pyarrow, which is not installed: {install_hint('train')}"
        ) from error
    return pyarrow


def _detect(block: bytes) -> str:
    """Returns the encoding of a text file from its first bytes."""
    for mark, encoding in _MARKS.items():
        if block.startswith(mark):
            return encoding
    # In UTF-16 without a mark, every other byte of a header is zero.
    zeros = [byte == 0 for byte in block[:2]]
    return {(False, True): "utf-16-le", (True, False): "utf-16-be"}.get(tuple(zeros), "utf-8")  # type: ignore[arg-type]


def _decoder(encoding: str) -> codecs.IncrementalDecoder | None:
    """Returns what decodes the blocks of a file; None for UTF-8."""
    name = codecs.lookup(encoding).name
    if name == "utf-8":
        return None
    wide = name.startswith(("utf-16", "utf-32"))
    return codecs.getincrementaldecoder(name)("surrogatepass" if wide else "surrogateescape")


def reason(error: Exception) -> str:
    """Returns the reason of an error in one line; only the system's words of its errors."""
    system = error.strerror if isinstance(error, OSError) else None
    return system or first_line(error)


def first_line(error: Exception) -> str:
    """Returns the first line of another package's message, or the name of the error."""
    return (str(error).strip().splitlines() or [type(error).__name__])[0].removesuffix(".")
