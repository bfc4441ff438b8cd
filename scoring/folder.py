"""Keeps the folder of the output: manifest, records, parts, bad rows and totals.

A unit is done once its part is there, and its record was written before. So an interrupted job goes
on with the units that have no part, and several shards may share a folder. Records carry the job's
id and their part's digest, so what another job wrote is never taken for this job's.
"""

import hashlib
import posixpath
import re
from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import TypeVar

import orjson
from filelock import Timeout
from pydantic import BaseModel, ValidationError

from model.atomic import beside, held
from scoring.errors import OutputError
from scoring.manifest import Manifest, Success, UnitRecord
from scoring.stores import FileStatus, LocalStore, Store, relative, store_of

MANIFEST = "manifest.json"
SUCCESS = "SUCCESS.json"
BAD_ROWS = "bad-rows.jsonl"
#: folder of the records, removed at the end
RECORDS = ".records"
_LOCK = ".lock-"
_START = f"{_LOCK}start"
_OWN = re.compile(
    r"\.records/.*|\.lock-.*|manifest\.json|SUCCESS\.json|bad-rows\.jsonl|part-\d{5,}\.[a-z.]+"
    r"|\.headlight-[0-9a-f]{16}\.(part|lock)"
)
_Content = TypeVar("_Content", bound=BaseModel)


class _GoneError(Exception):
    """Another shard has finished meanwhile, and removed the records."""


class Output:
    """The folder that a job writes, by its path or URL."""

    def __init__(self, path: str) -> None:
        self.path = path.rstrip("/") or "/"
        self._store: Store = store_of(path)
        self._followed: FileStatus | None = None

    def manifest(self) -> Manifest | None:
        """Reads the manifest; None if no job has started. Raises OutputError if it is damaged."""
        return self._read(Manifest, MANIFEST)

    def prepare(self) -> None:
        """Makes the folder.

        Raises:
            OutputError: something else is there, or the folder cannot be made.
        """
        if isinstance(self._store, LocalStore):
            try:
                Path(self.path).mkdir(parents=True, exist_ok=True)
            except FileExistsError as error:
                raise OutputError(self.path, "is a file: give the path of a folder") from error
            except OSError as error:
                raise OutputError(self.path, f"cannot be made: {error.strerror}") from error
        foreign = [name for name in self._names() if not _OWN.fullmatch(name)]
        if foreign:
            raise OutputError(
                self.path,
                f"holds {foreign[0]}, which no job writes: choose an empty or a new folder",
            )

    def clear(self) -> None:
        """Removes what a job has written; no job may be at work on it."""
        # The totals first and the manifest last: until then the folder is a job's.
        for name in sorted(self._names(), key=lambda name: (name != SUCCESS, name == MANIFEST)):
            if not name.startswith(_LOCK):
                self._store.remove(self._path(name))

    def clear_parts(self, manifest: Manifest, numbers: Sequence[int]) -> None:
        """Removes the totals, and the parts of some units."""
        units = [name for at in numbers for name in (manifest.part_name(at), _record_name(at))]
        there = set(self._names())
        for name in filter(there.__contains__, (SUCCESS, BAD_ROWS, *units)):
            self._store.remove(self._path(name))

    def follow(self, manifest: Manifest) -> None:
        """Lets parts and totals be written only while the manifest there is this one.

        Raises:
            OutputError: it is another one.
        """
        self._followed = self._store.status(self._path(MANIFEST))
        there = self.manifest()
        if there is None or there.job != manifest.job:
            raise self._taken()

    def begin(self, manifest: Manifest) -> Manifest:
        """Writes the manifest unless another job just did so; returns the one that is there."""
        self._store.create(self._path(MANIFEST), to_json(manifest))
        return self.manifest() or manifest

    def success(self) -> Success | None:
        """Reads the totals; None if the job is not finished."""
        return self._read(Success, SUCCESS)

    def done(self, manifest: Manifest) -> set[int]:
        """Returns the numbers of the units with a record of this job and a part of its size."""
        files = self._store.files(self.path)
        sizes = {relative(file.path, self.path): file.size for file in files}
        done = set()
        for unit in manifest.units:
            if manifest.part_name(unit.number) in sizes and _record_name(unit.number) in sizes:
                record = self._record(unit.number)
                if (
                    record is not None
                    and record.job == manifest.job
                    and sizes.get(record.part) == record.size
                ):
                    done.add(unit.number)
        return done

    def write(self, record: UnitRecord, part: bytes, source: str) -> None:
        """Writes the record of a unit, then its part, or raises OutputError.

        Nobody may read the part who may not read its source.
        """
        self._check_followed()
        if isinstance(self._store, LocalStore):
            Path(self._path(RECORDS)).mkdir(exist_ok=True)
        self._store.write(self._path(_record_name(record.number)), [to_json(record)])
        self._store.write(self._path(record.part), [part], like=[source])

    def finish(self, manifest: Manifest, own: Collection[int] = ()) -> Success | None:
        """Checks and adds up all units, writes bad rows and totals, and returns the totals.

        Several shards may do so at once: they write the same. Returns None if a unit of another
        shard is not done.

        Raises:
            OutputError: a unit of `own`, or one of its rows, is lost, another job has begun there,
                or a file cannot be written.
        """
        self._check_followed()
        ready = self.success()
        if ready is None:
            done = self.done(manifest)
            if len(done) < len(manifest.units):
                # Another shard may have finished meanwhile, and removed the records.
                ready = self.success()
                if ready is None and not done.issuperset(own):
                    raise OutputError(
                        self.path,
                        f"lacks {len(set(own) - done):,} parts that this job should have written: "
                        "run the same command to go on",
                    )
                return ready
            try:
                ready = self._totals(manifest)
                self._store.write(self._path(BAD_ROWS), self._bad_lines(manifest))
            except _GoneError:
                return self.success()
            self._check_followed()
            self._store.write(self._path(SUCCESS), [to_json(ready)])
        self._remove_records(manifest)
        return ready

    @contextmanager
    def starting(self) -> Iterator[None]:
        """Waits until no other shard on this machine starts; object stores have no locks."""
        with self._lock(_START, wait=True):
            yield

    @contextmanager
    def locked(self, shard: tuple[int, int]) -> Iterator[None]:
        """Rejects a job while another one on this machine may do the same units.

        Raises:
            OutputError: another job of this shard, or of another shard count, is at work on it.
        """
        if any(not name.endswith(f"-of-{shard[1]}") for name in self._held(_lock_name(shard))):
            raise self.busy()
        with self._lock(_lock_name(shard)):
            yield

    def is_shared(self, shard: tuple[int, int]) -> bool:
        """Returns whether another shard is at work on it."""
        return bool(self._held(_lock_name(shard)))

    def _held(self, own: str = "") -> list[str]:
        """Returns the locks of other jobs at work, and removes those of killed ones."""
        held = []
        if isinstance(self._store, LocalStore):
            for name in self._names():
                if name.startswith(_LOCK) and name not in (own, _START):
                    try:
                        with self._lock(name):
                            pass
                    except OutputError:
                        held.append(name)
        return held

    @contextmanager
    def _lock(self, name: str, *, wait: bool = False) -> Iterator[None]:
        """Holds a file that one process at a time can hold; it is gone afterwards."""
        if not isinstance(self._store, LocalStore):
            yield
            return
        path = Path(self._path(name))
        with ExitStack() as stack:
            try:
                stack.enter_context(held(path, wait=wait))
            except Timeout as error:
                raise self.busy() from error
            except OSError as error:
                raise OutputError(str(path), f"cannot be written: {error.strerror}") from error
            yield

    def busy(self) -> OutputError:
        """Returns the refusal of a job while another one is at work."""
        return OutputError(self.path, "another job is at work on it: wait for it, or end it")

    def _check_followed(self) -> None:
        if self._store.status(self._path(MANIFEST)) != self._followed:
            raise self._taken()

    def _taken(self) -> OutputError:
        return OutputError(
            self.path, "another job has begun there with --overwrite: choose another --output"
        )

    def _totals(self, manifest: Manifest) -> Success:
        labels: Counter[str] = Counter(dict.fromkeys(manifest.model.labels, 0))
        reasons: Counter[str] = Counter()
        sums = dict.fromkeys(("rows_in", "rows_out", "truncated", "tokens", "size"), 0)
        for unit, record in zip(manifest.units, self._records(manifest), strict=True):
            part = self._store.read(self._path(record.part)) or b""
            if hashlib.sha256(part).hexdigest() != record.sha256:
                raise OutputError(
                    self._path(record.part),
                    "is not what this job has written: remove it, and run the same command again",
                )
            if not record.rows_in == unit.rows == record.rows_out + len(record.bad):
                raise OutputError(
                    self._path(record.part),
                    f"has {record.rows_out:,} rows and {len(record.bad):,} bad ones of "
                    f"{unit.rows:,}: remove it, and run the same command again",
                )
            labels.update(record.labels)
            reasons.update(row.reason for row in record.bad)
            for name in sums:
                sums[name] += getattr(record, name)
        totals = {
            "bytes": sums.pop("size"),
            "bad_rows": sum(reasons.values()),
            "reasons": dict(sorted(reasons.items(), key=lambda item: (-item[1], item[0]))),
            "labels": dict(labels),
            "parts": len(manifest.units),
            "model_version": manifest.model.version,
        }
        return Success.model_validate({**totals, **sums})

    def _bad_lines(self, manifest: Manifest) -> Iterator[bytes]:
        for record in self._records(manifest):
            rows = (row.model_dump() for row in record.bad)
            yield b"".join(orjson.dumps(row, option=orjson.OPT_APPEND_NEWLINE) for row in rows)

    def _records(self, manifest: Manifest) -> Iterator[UnitRecord]:
        """Reads one record at a time: those of a large job may have millions of bad rows."""
        for unit in manifest.units:
            record = self._record(unit.number)
            if record is None or record.job != manifest.job:
                raise _GoneError
            yield record

    def _record(self, number: int) -> UnitRecord | None:
        return self._read(UnitRecord, _record_name(number))

    def _remove_records(self, manifest: Manifest) -> None:
        """Removes the records, and what killed processes have left."""
        files = [MANIFEST, *(manifest.part_name(unit.number) for unit in manifest.units)]
        left = {beside(Path(file), kind).name for file in files for kind in ("part", "lock")}
        for name in self._names():
            if name.startswith(f"{RECORDS}/") or name in left:
                self._store.remove(self._path(name))
        self._held()
        if isinstance(self._store, LocalStore):
            with suppress(OSError):
                Path(self._path(RECORDS)).rmdir()

    def _read(self, kind: type[_Content], name: str) -> _Content | None:
        content = self._store.read(self._path(name))
        try:
            return None if content is None else kind.model_validate_json(content)
        except ValidationError as error:
            raise OutputError(
                self._path(name), "is damaged, or of another version: use --overwrite"
            ) from error

    def _path(self, name: str) -> str:
        return posixpath.join(self.path, name)

    def _names(self) -> list[str]:
        """Returns the paths of all files, from the folder."""
        return [relative(file.path, self.path) for file in self._store.files(self.path)]


def to_json(content: BaseModel) -> bytes:
    """Writes a model of pydantic as indented JSON with a line end."""
    return orjson.dumps(
        content.model_dump(mode="json"), option=orjson.OPT_INDENT_2 | orjson.OPT_APPEND_NEWLINE
    )


def _lock_name(shard: tuple[int, int]) -> str:
    return f"{_LOCK}{shard[0]}-of-{shard[1]}"


def _record_name(number: int) -> str:
    return f"{RECORDS}/{number:05d}.json"
