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
    """Rows of a table from one position to another.

    Args:
        start: first byte, after unpacking; in Parquet the first row within the row group.
        end: one past the last byte or row.
        row_group: None except for Parquet.
        first_row: number of its first row as bad rows name it: the line of the file on which it
            begins, from 1; in Parquet the row of the file, from 1.
        rows: how many rows it has, bad ones too.
        sha256: digest of the bytes of its rows, which is compared after reading; in Parquet of
            the columns that are used, in the whole row group.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    start: int
    end: int
    row_group: int | None = None
    first_row: int
    rows: int
    sha256: str = ""


@dataclass(slots=True)
class Scan:
    """What reading a table through finds.

    Args:
        sha256: digest of the unpacked bytes; in Parquet of the footer.
        names: of the columns; of JSON all keys; and those that folders name.
        header: names of the columns of the file itself; none of JSON.
        types: names of those of the values of each key of JSON, or that of each column of Parquet.
        garbled: how many rows are not in the encoding.
    """

    sha256: str = ""
    names: tuple[str, ...] = ()
    header: tuple[str, ...] = ()
    delimiter: str = ","
    rows: int = 0
    pieces: list[Piece] = field(default_factory=list)
    types: dict[str, set[Any]] = field(default_factory=dict)
    garbled: int = 0


@dataclass(slots=True)
class Rows:
    """N rows in their order.

    Args:
        numbers: the line on which each row begins; in Parquet its number, from 1.
        texts: empty for a bad row.
        values: of the columns that are kept, a list for each row, or a pyarrow.Table; of bad rows
            as far as they can be read.
        faults: why rows are bad, by their indices.
    """

    numbers: list[int] = field(default_factory=list)
    texts: list[str] = field(default_factory=list)
    values: Any = field(default_factory=list)
    faults: dict[int, str] = field(default_factory=dict)

    def add(self, number: int, text: object, fault: str | None) -> None:
        """Adds a row, but for its values."""
        if fault is not None:
            self.faults[len(self.numbers)] = fault
        self.numbers.append(number)
        self.texts.append("" if fault is not None else str(text))
