"""Reads and writes files by path or URL: the local disk, and object stores through fsspec.

A file is written completely or not at all: on the disk under another name that is then changed, in
an object store by one upload.
"""

import errno
import os
import re
import stat
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path, PurePosixPath
from typing import Any, BinaryIO, cast

from model.atomic import replacing
from model.errors import TableError
from model.tables.lines import first_line, reason
from scoring.errors import OutputError, ScoringError

_SCHEME = re.compile(r"([a-z][a-z0-9+.-]*)://", re.IGNORECASE)
# Where file systems say when a file changed.
_CHANGED = ("mtime", "LastModified", "last_modified", "updated", "created")
_UNREAD = {stat.S_IFLNK: "links that lead nowhere", stat.S_IFDIR: "links to folders"}
_WITH_PASSWORD = re.compile(r"[a-z][a-z0-9+.-]*://[^/]*@", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class FileStatus:
    """A file of a store: its path or URL, its size in bytes and its time in nanoseconds.

    `unread` names its kind if it cannot be read, such as links that lead nowhere.
    """

    path: str
    size: int
    modified: int
    unread: str = ""


def is_url(path: str) -> bool:
    """Returns whether it is a URL, not a path."""
    return _SCHEME.match(path) is not None


def relative(path: str, folder: str) -> str:
    """Returns the path or URL of a file from a folder above it, however both are spelled."""
    if is_url(path):
        path, folder = path.partition("://")[2], folder.partition("://")[2]
    return str(PurePosixPath(path).relative_to(PurePosixPath(folder)))


def store_of(path: str) -> "Store":
    """Chooses the store of a path or URL.

    Raises:
        ScoringError: the scheme is not known, or the URL holds a password.
    """
    scheme = _SCHEME.match(path)
    if scheme is None:
        return LocalStore()
    if _WITH_PASSWORD.match(path):
        raise ScoringError(
            f"{scheme[0]}…: a URL may hold no user and no password: use the environment variables "
            "of the store, such as AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY"
        )
    return RemoteStore(path)


class LocalStore:
    """The disk of this machine, and what is mounted there."""

    def status(self, path: str) -> FileStatus | None:
        """Describes a file; None if there is none."""
        with _reading(path), suppress(FileNotFoundError, NotADirectoryError):
            return _describe_path(path)
        return None

    def files(self, folder: str) -> Iterator[FileStatus]:
        """Lists all but folders below a folder, in the order of their paths."""
        with _reading(folder):
            paths = [
                str(path)
                for place, folders, names in os.walk(folder, onerror=_raise)
                for path in map(Path(place).joinpath, (*names, *folders))
                if path.name not in folders or path.is_symlink()
            ]
        for path in sorted(paths):
            with _reading(path), suppress(FileNotFoundError):  # removed meanwhile
                yield _describe_path(path)

    def open(self, path: str) -> BinaryIO:
        """Opens a file for reading."""
        with _reading(path):
            return Path(path).open("rb")

    def read(self, path: str) -> bytes | None:
        """Reads a whole file; None if there is none."""
        with _reading(path), suppress(FileNotFoundError):
            return Path(path).read_bytes()
        return None

    def write(self, path: str, pieces: Iterable[bytes], *, like: Sequence[str] = ()) -> None:
        """Writes a file completely or not at all, and replaces what is there; see `replacing`."""
        with _writing(path, pieces), replacing(Path(path), like=map(Path, like)) as file:
            file.writelines(pieces)

    def create(self, path: str, content: bytes) -> None:
        """Writes a file unless it is there."""
        exclusive = replacing(Path(path), exclusive=True)
        with _writing(path, [content]), suppress(FileExistsError), exclusive as file:
            file.write(content)

    def remove(self, path: str) -> None:
        """Removes a file, if it is there."""
        with _writing(path):
            Path(path).unlink(missing_ok=True)


class RemoteStore:
    """An object store that fsspec reaches."""

    def __init__(self, url: str) -> None:
        self._fs, self._key = _file_system(url)

    def status(self, path: str) -> FileStatus | None:
        """Describes a file; None if there is none."""
        with _reading(path), suppress(FileNotFoundError):
            return _describe(path, self._fs.info(self._key(path)))
        return None

    def files(self, folder: str) -> Iterator[FileStatus]:
        """Lists all files below a folder, in the order of their paths."""
        key, found = self._key(folder).rstrip("/"), {}
        with _reading(folder), suppress(FileNotFoundError):
            self._fs.invalidate_cache()
            found = self._fs.find(key, detail=True)
        for name, info in sorted(found.items()):
            status = _describe(folder.rstrip("/") + name.removeprefix(key), info)
            if status is not None:
                yield status

    def open(self, path: str) -> BinaryIO:
        """Opens a file for reading."""
        with _reading(path):
            return cast(BinaryIO, self._fs.open(self._key(path), "rb"))

    def read(self, path: str) -> bytes | None:
        """Reads a whole file; None if there is none."""
        if self.status(path) is None:
            return None
        with _reading(path), self.open(path) as file:
            return file.read()

    def write(self, path: str, pieces: Iterable[bytes], *, like: Sequence[str] = ()) -> None:
        """Uploads a file; it is there once the upload is complete."""
        del like  # a store has rights of its own
        with _writing(path, pieces):
            output = self._fs.open(self._key(path), "wb")
            for piece in pieces:
                output.write(piece)
            output.close()  # completes an upload, so an error must not close it

    def create(self, path: str, content: bytes) -> None:
        """Uploads a file unless one is there."""
        if self.status(path) is None:
            self.write(path, [content])

    def remove(self, path: str) -> None:
        """Removes a file, if it is there."""
        if self.status(path) is not None:
            with _writing(path):
                self._fs.rm_file(self._key(path))


def _describe_path(path: str) -> FileStatus:
    try:
        status = Path(path).stat()
    except OSError as error:
        status = Path(path).lstat()
        if error.errno == errno.EACCES or not stat.S_ISLNK(status.st_mode):
            raise
    kind = stat.S_IFMT(status.st_mode)
    unread = "" if kind == stat.S_IFREG else _UNREAD.get(kind, "pipes, sockets and devices")
    return FileStatus(path, status.st_size, status.st_mtime_ns, unread)


def _describe(path: str, info: Mapping[str, Any]) -> FileStatus | None:
    if info["type"] != "file":
        return None
    changed = (info[name] for name in _CHANGED if isinstance(info.get(name), datetime))
    modified = next(changed, datetime.fromtimestamp(0, UTC)).timestamp()
    return FileStatus(path, info["size"], int(modified * 1e9))


Store = LocalStore | RemoteStore


def _file_system(url: str) -> tuple[Any, Callable[[str], str]]:
    """Returns the file system of a URL, and what turns URLs into its names for them."""
    from fsspec.core import url_to_fs
    from fsspec.implementations.arrow import ArrowFSWrapper
    from pyarrow import ArrowInvalid, fs

    try:
        own = ArrowFSWrapper(fs.FileSystem.from_uri(url)[0])
    except ArrowInvalid as error:
        if "Unrecognized filesystem type" not in str(error):
            raise ScoringError(f"{url}: {first_line(error)}") from error
    except OSError as error:
        raise ScoringError(f"{url}: cannot be reached: {first_line(error)}") from error
    else:
        return own, lambda path: path.partition("://")[2].rstrip("/")
    try:
        system, _ = url_to_fs(url)
    except (ImportError, ValueError) as error:
        scheme = url.partition("://")[0]
        raise ScoringError(
            f"{url}: {scheme}:// is not known: install the package with which fsspec knows it"
        ) from error
    return system, system._strip_protocol


def _raise(error: OSError) -> None:
    if not isinstance(error, FileNotFoundError):  # removed meanwhile
        raise error


@contextmanager
def _reading(path: str) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise TableError(path, f"cannot be read: {reason(error)}") from error


@contextmanager
def _writing(path: str, pieces: Iterable[bytes] = ()) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        size = sum(map(len, pieces)) if isinstance(pieces, list) else 0
        needed = f" ({size:,} bytes)" if size else ""
        is_full = error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
        advice = ": make room, then run the same command to go on" if is_full else ""
        fault = f"cannot be written{needed}: {reason(error)}{advice}"
        raise OutputError(path, fault) from error
