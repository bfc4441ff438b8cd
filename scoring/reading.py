"""Reads the rows of a unit, and sets aside those without a text to score."""

import csv
import hashlib
import io
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from model.errors import TableError
from model.tables.lines import LineReader
from model.tables.parquet import (
    ParquetInput,
    bad_values,
    keep_rows,
    texts_of,
    widen,
    without_bad_values,
)
from model.tables.raw_rows import RawRow, cells_of, read_raw, to_text
from model.tables.values import MISSING, read_cells, read_record, text_fault
from scoring.errors import InputFileError
from scoring.output.manifest import BadRow, Manifest, Source, Unit
from scoring.stores import store_of


@dataclass(slots=True)
class UnitRows:
    """The rows of a unit that have a text, and those that have none.

    `values` are kept columns: a list for each row, or a pyarrow.Table for Parquet. `every` has
    those of all rows in order, of bad ones as far as they can be read, if the reader keeps them.
    """

    numbers: list[int] = field(default_factory=list)
    texts: list[str] = field(default_factory=list)
    values: Any = field(default_factory=list)
    bad: list[BadRow] = field(default_factory=list)
    every: Any = field(default_factory=list)


class UnitReader:
    """Reads units of a job. Units of one compressed file are fastest in their order.

    Args:
        keeps_bad: whether the values of bad rows are wanted too.
    """

    def __init__(self, manifest: Manifest, *, keeps_bad: bool = False) -> None:
        self._manifest = manifest
        self._keeps_bad = keeps_bad
        self._wide = {each.name: each.wide for each in manifest.columns if each.wide}
        self._open: tuple[int, LineReader] | None = None
        self._wanted = [column.name for column in manifest.columns]

    def read(self, unit: Unit) -> UnitRows:
        """Reads one unit.

        Raises:
            InputFileError: the file cannot be read, or is not what it was when the job was planned.
        """
        source = self._manifest.sources[unit.source]
        if unit.row_group is not None:
            return self._read_parquet(source, unit, unit.row_group)
        digest = hashlib.sha256()
        rows = UnitRows()
        count = 0
        parse = _Parser(source, self._manifest.text_column, self._wanted)
        for raw in self._raw(source, unit):
            count += 1
            digest.update(raw.content)
            parse.add(raw, rows)
            if self._keeps_bad:
                rows.every.append(parse.values_of(raw, rows))
        if count != unit.rows or digest.hexdigest() != unit.sha256:
            self.close()
            raise _changed(source)
        return rows

    def close(self) -> None:
        """Closes the file that is open."""
        if self._open is not None:
            self._open[1].close()
            self._open = None

    def _raw(self, source: Source, unit: Unit) -> Iterator[RawRow]:
        reader = self._reader(source, unit)
        try:
            for raw in read_raw(reader, source.path, source.format, source.delimiter):
                yield raw
                if reader.position >= unit.end:
                    break
        except TableError:
            self.close()
            raise

    def _reader(self, source: Source, unit: Unit) -> LineReader:
        """Goes on in the file that is open, or opens another."""
        if self._open is not None:
            index, reader = self._open
            if index != unit.source or reader.position > unit.start:
                self.close()
        if self._open is None:
            file = store_of(source.path).open(source.path)
            reader = LineReader(
                source.path,
                file,
                source.compression,
                source.encoding,
                of_json=source.format == "jsonl",
            )
            self._open = (unit.source, reader)
        reader = self._open[1]
        reader.skip_to(unit.start, unit.first_row)
        return reader

    def _read_parquet(self, source: Source, unit: Unit, row_group: int) -> UnitRows:
        text = self._manifest.text_column
        names = list(dict.fromkeys([text, *self._wanted]))
        with ParquetInput(source.path, store_of(source.path).open(source.path)) as parquet:
            if (
                parquet.footer_sha256 != source.sha256
                or parquet.digest(names, row_group=row_group) != unit.sha256
            ):
                raise _changed(source)
            table = parquet.read(names, row_group=row_group, start=unit.start, end=unit.end)
        if table.num_rows != unit.rows:
            raise _changed(source)
        rows = UnitRows()
        good = []
        kept = widen(table.select(self._wanted), self._wide)
        faults = bad_values(kept)
        for index, value in enumerate(texts_of(table[text])):
            number = unit.first_row + index
            error = text_fault(value) or faults.get(index)
            if error is None:
                good.append(index)
                rows.numbers.append(number)
                rows.texts.append(str(value))
            else:
                rows.bad.append(BadRow(file=source.path, row=number, reason=error))
        if self._keeps_bad:
            rows.every = without_bad_values(kept)
        rows.values = kept if len(good) == table.num_rows else keep_rows(kept, good)
        return rows


class _Parser:
    """Turns raw rows of one text file into texts and kept values."""

    def __init__(self, source: Source, text_column: str, wanted: Sequence[str]) -> None:
        self._source = source
        self._text = text_column
        self._wanted = wanted
        if source.format != "jsonl":
            indices = {name: index for index, name in enumerate(source.header)}
            self._text_index = indices[text_column]
            self._indices = [indices[name] for name in wanted]

    def add(self, raw: RawRow, rows: UnitRows) -> None:
        """Adds a row to the good or the bad ones."""
        text: object = None
        values: list[object] = []
        try:
            text, values = self._read(raw)
            error = text_fault(text)
        except ValueError as fault:
            error = str(fault)
        if error is not None:
            rows.bad.append(BadRow(file=self._source.path, row=raw.line, reason=error))
            return
        rows.numbers.append(raw.line)
        rows.texts.append(str(text))
        rows.values.append(values)

    def values_of(self, raw: RawRow, rows: UnitRows) -> list[object]:
        """Returns the kept values of the row that was added last, also of a bad one."""
        if rows.numbers and rows.numbers[-1] == raw.line:
            return list(rows.values[-1])
        if self._source.format == "jsonl":
            try:
                record = read_record(raw.content)
            except ValueError:
                return [MISSING] * len(self._wanted)
            return [record.get(name, MISSING) for name in self._wanted]
        cells = self._cells_of_bad(raw)
        return [cells[index] for index in self._indices]

    def _cells_of_bad(self, raw: RawRow) -> list[str]:
        """Divides a row that is at fault; cells beyond the header stay in the last column."""
        cells = cells_of(raw)
        if raw.error is not None:
            text = to_text(raw.content).rstrip("\r\n").replace("\r", " ")
            cells = next(csv.reader(io.StringIO(text), delimiter=self._source.delimiter), [])
        count = len(self._source.header)
        last = self._source.delimiter.join(cells[count - 1 :])
        cells = [*cells[: count - 1], last] + [""] * (count - max(len(cells), 1))
        return [
            cell.encode(errors="surrogateescape").decode(errors="backslashreplace")
            for cell in cells
        ]

    def _read(self, raw: RawRow) -> tuple[object, list[object]]:
        """Returns the text and the kept values, or raises ValueError with what is wrong."""
        if self._source.format != "jsonl":
            cells = read_cells(raw, len(self._source.header))
            return cells[self._text_index], [cells[index] for index in self._indices]
        record = read_record(raw.content)
        if self._text not in record:
            raise ValueError(f"lacks {self._text!r}")
        return record[self._text], [record.get(name, MISSING) for name in self._wanted]


def _changed(source: Source) -> InputFileError:
    return InputFileError(
        source.path, "has changed since the job began: put it back, or start again with --overwrite"
    )
