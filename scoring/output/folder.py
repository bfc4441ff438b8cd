"""Keeps the folder of the output: manifest, records, parts, bad rows and totals.

A unit is done once its part is there, and its record was written before. So an interrupted job goes
on with the units that have no part, and several jobs may share a folder.
"""

import fcntl
import os
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TypeVar

import orjson
from pydantic import BaseModel, ValidationError

from scoring.errors import OutputError
from scoring.output.manifest import BadRow, Manifest, Success, UnitRecord
from scoring.output.writing import part_name
from scoring.stores import LocalStore, Store, join, store_of

MANIFEST = "manifest.json"
SUCCESS = "SUCCESS.json"
BAD_ROWS = "bad-rows.jsonl"
#: folder of the records and locks, removed at the end
RECORDS = ".records"
_OWN = (MANIFEST, SUCCESS, BAD_ROWS)
_Content = TypeVar("_Content", bound=BaseModel)


class _GoneError(Exception):
    """Another job has finished meanwhile, and removed the records."""


class Output:
    """The folder that a job writes, by its path or URL."""

    def __init__(self, path: str) -> None:
        self.path = path.rstrip("/") or "/"
        self._store: Store = store_of(path)

    def manifest(self) -> Manifest | None:
        """Reads the manifest; None if no job has started. Raises OutputError if it is damaged."""
        content = self._store.read(self._path(MANIFEST))
        return None if content is None else self._parse(Manifest, content, MANIFEST)

    def prepare(self, *, overwrite: bool) -> None:
        """Makes the folder; with `overwrite` also removes what a job has written there.

        Raises:
            OutputError: something else is there, or the folder cannot be made.
        """
        if isinstance(self._store, LocalStore):
            try:
                Path(self.path).mkdir(parents=True, exist_ok=True)
            except OSError as error:
                raise OutputError(self.path, f"cannot be made: {error.strerror}") from error
        names = [self._name(file.path) for file in self._store.files(self.path)]
        foreign = [name for name in names if not _is_own(name)]
        if foreign:
            raise OutputError(
                self.path,
                f"holds {foreign[0]}, which no job writes: choose an empty or a new folder",
            )
        if overwrite:
            # The totals first and the manifest last: until then the folder is a job's.
            for name in sorted(names, key=lambda name: (name != SUCCESS, name == MANIFEST)):
                self._store.remove(self._path(name))

    def begin(self, manifest: Manifest) -> Manifest:
        """Writes the manifest unless another job just did so; returns the one that is there."""
        self._store.create(self._path(MANIFEST), to_json(manifest))
        return self.manifest() or manifest

    def success(self) -> Success | None:
        """Reads the totals; None if the job is not finished."""
        content = self._store.read(self._path(SUCCESS))
        return None if content is None else self._parse(Success, content, SUCCESS)

    def done(self, manifest: Manifest) -> set[int]:
        """Returns the numbers of the units that have a part of the recorded size."""
        sizes = {self._name(file.path): file.size for file in self._store.files(self.path)}
        done = set()
        for unit in manifest.units:
            if part_name(manifest, unit.number) in sizes and _record_name(unit.number) in sizes:
                record = self._record(unit.number)
                if record is not None and sizes[record.part] == record.size:
                    done.add(unit.number)
        return done

    def write(self, record: UnitRecord, part: bytes) -> None:
        """Writes the record of a unit, then its part, or raises OutputError."""
        if isinstance(self._store, LocalStore):
            Path(self._path(RECORDS)).mkdir(exist_ok=True)
        self._store.write(self._path(_record_name(record.number)), [to_json(record)])
        self._store.write(self._path(record.part), [part])

    def tidy(self, numbers: Sequence[int]) -> None:
        """Removes half-written files of killed workers; no worker may run these units now."""
        if isinstance(self._store, LocalStore):
            parts = tuple(f".part-{number:05d}." for number in numbers)
            records = tuple(f"{RECORDS}/.{number:05d}." for number in numbers)
            for file in list(self._store.files(self.path)):
                if self._name(file.path).startswith((*parts, *records)):
                    self._store.remove(file.path)

    def finish(self, manifest: Manifest) -> Success | None:
        """Checks and adds up all units, writes bad rows and totals, and returns the totals.

        Several jobs may do so at once: they write the same. Returns None if a unit is not done.

        Raises:
            OutputError: rows are lost, or a file cannot be written.
        """
        ready = self.success()
        if ready is None:
            if len(self.done(manifest)) < len(manifest.units):
                # Another job may have finished meanwhile, and removed the records.
                return self.success()
            try:
                ready = self._totals(manifest)
                self._store.write(self._path(BAD_ROWS), self._bad_lines(manifest))
            except _GoneError:
                return self.success()
            self._store.write(self._path(SUCCESS), [to_json(ready)])
        self._remove_records()
        return ready

    @contextmanager
    def locked(self, shard: tuple[int, int]) -> Iterator[None]:
        """Rejects a second job of the same shard on this machine; object stores have no locks.

        Raises:
            OutputError: another job is at work on it.
        """
        if not isinstance(self._store, LocalStore):
            yield
            return
        folder = Path(self._path(RECORDS))
        folder.mkdir(exist_ok=True)
        path = folder / f"lock-{shard[0]}-of-{shard[1]}"
        with path.open("wb") as lock:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError as error:
                raise OutputError(
                    self.path, "another job is at work on it: wait for it, or end it"
                ) from error
            yield

    def _totals(self, manifest: Manifest) -> Success:
        labels: Counter[str] = Counter(dict.fromkeys(manifest.model.labels, 0))
        reasons: Counter[str] = Counter()
        sums: Counter[str] = Counter()
        for unit, record in zip(manifest.units, self._records(manifest), strict=True):
            if not record.rows_in == unit.rows == record.rows_out + len(record.bad):
                raise OutputError(
                    self._path(record.part),
                    f"has {record.rows_out:,} rows and {len(record.bad):,} bad ones of "
                    f"{unit.rows:,}: remove it, and run the same command again",
                )
            labels.update(record.labels)
            reasons.update(row.reason for row in record.bad)
            for name in ("rows_in", "rows_out", "truncated", "tokens", "size"):
                sums[name] += getattr(record, name)
        return Success(
            rows_in=sums["rows_in"],
            rows_out=sums["rows_out"],
            bad_rows=sum(reasons.values()),
            reasons=dict(sorted(reasons.items(), key=lambda item: (-item[1], item[0]))),
            truncated=sums["truncated"],
            tokens=sums["tokens"],
            labels=dict(labels),
            parts=len(manifest.units),
            bytes=sums["size"],
            model_version=manifest.model.version,
        )

    def _bad_lines(self, manifest: Manifest) -> Iterator[bytes]:
        for record in self._records(manifest):
            yield b"".join(map(_bad_line, record.bad))

    def _records(self, manifest: Manifest) -> Iterator[UnitRecord]:
        """Reads one record at a time: those of a large job may have millions of bad rows."""
        for unit in manifest.units:
            record = self._record(unit.number)
            if record is None:
                raise _GoneError
            yield record

    def _record(self, number: int) -> UnitRecord | None:
        content = self._store.read(self._path(_record_name(number)))
        if content is None:
            return None
        return self._parse(UnitRecord, content, _record_name(number))

    def _remove_records(self) -> None:
        """Removes the records, and what killed workers have left of parts."""
        for file in list(self._store.files(self.path)):
            name = self._name(file.path)
            if name.startswith((f"{RECORDS}/", ".part-")):
                self._store.remove(file.path)
        if isinstance(self._store, LocalStore):
            try:
                os.rmdir(self._path(RECORDS))  # noqa: PTH106 - the path may be gone already
            except OSError:
                return  # another job finishes at the same time

    def _parse(self, kind: type[_Content], content: bytes, name: str) -> _Content:
        try:
            return kind.model_validate_json(content)
        except ValidationError as error:
            raise OutputError(
                self._path(name), "is damaged, or of another version: use --overwrite"
            ) from error

    def _path(self, name: str) -> str:
        return join(self.path, name)

    def _name(self, path: str) -> str:
        return path[len(self.path) :].lstrip("/")


def to_json(content: BaseModel) -> bytes:
    """Writes a model of pydantic as indented JSON with a line end."""
    return orjson.dumps(
        content.model_dump(mode="json"), option=orjson.OPT_INDENT_2 | orjson.OPT_APPEND_NEWLINE
    )


def _record_name(number: int) -> str:
    return f"{RECORDS}/{number:05d}.json"


def _bad_line(row: BadRow) -> bytes:
    return orjson.dumps(row.model_dump(), option=orjson.OPT_APPEND_NEWLINE)


def _is_own(name: str) -> bool:
    file = name.rpartition("/")[2]
    return (
        name in _OWN
        or name.startswith((f"{RECORDS}/", "part-"))
        or (file.startswith(".") and file.endswith(".tmp"))
    )
