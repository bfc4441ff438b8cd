"""Describes pieces of a table, and the rows that are read of one."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, BinaryIO

from pydantic import BaseModel, ConfigDict

from model.errors import TableError
from model.tables.files import Compression, Format


@dataclass(frozen=True, slots=True)
class TableFile:
    """A file with a table: its path, its form, how it is packed, and what opens it."""

    path: str
    format: Format
    compression: Compression | None
    open: Callable[[], BinaryIO]

    def changed(self) -> TableError:
        """Returns the error of a file that is not what it was when it was divided."""
        return TableError(
            self.path,
            "has changed since the job began: put it back, or start again with --overwrite",
        )


class Piece(BaseModel):
    """Rows of a table from one position to another."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    start: int  # first byte, after unpacking; in Parquet the first row within the row group
    end: int  # one past the last byte or row
    row_group: int | None = None  # only of Parquet
    first_row: int  # its line in the file, from 1; in Parquet its number in the file, from 1
    rows: int  # bad ones too
    # Of the bytes of its rows, which is compared after reading; in Parquet of the columns that are
    # used, in the whole row group.
    sha256: str = ""


@dataclass(slots=True)
class Scan:
    """What reading a table through finds."""

    sha256: str = ""  # of the unpacked bytes; in Parquet of the footer
    names: tuple[str, ...] = ()  # of the columns; of JSON all keys; and those that folders name
    header: tuple[str, ...] = ()  # names of the columns of the file itself; none of JSON
    delimiter: str = ","
    rows: int = 0
    pieces: list[Piece] = field(default_factory=list)
    # Those of the values of each key of JSON by their names, or that of each column of Parquet.
    types: dict[str, set[Any]] = field(default_factory=dict)
    garbled: int = 0  # rows that are not in the encoding


@dataclass(slots=True)
class Rows:
    """N rows in their order."""

    numbers: list[int] = field(default_factory=list)  # the line of each; in Parquet its number
    texts: list[str] = field(default_factory=list)  # empty for a bad row
    # Of the columns that are kept, a list for each row, or a pyarrow.Table; of bad rows as far as
    # they can be read.
    values: Any = field(default_factory=list)
    faults: dict[int, str] = field(default_factory=dict)  # why rows are bad, by their indices

    def add(self, number: int, text: object, fault: str | None) -> None:
        """Adds a row, but for its values."""
        if fault is not None:
            self.faults[len(self.numbers)] = fault
        self.numbers.append(number)
        self.texts.append("" if fault is not None else str(text))
