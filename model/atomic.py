"""Writes files and folders: whole or not at all, and one process at a time."""

import ctypes
import errno
import hashlib
import os
import shutil
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, nullcontext, suppress
from functools import partial
from pathlib import Path
from typing import BinaryIO

from filelock import FileLock

_HERE, _EXCHANGE = -100, 2  # AT_FDCWD and RENAME_EXCHANGE of the kernel


def write_whole(path: Path, content: bytes) -> None:
    """Replaces a file atomically: readers see the old content or the whole new content."""
    with replacing(path) as file:
        file.write(content)


@contextmanager
def replacing(
    path: Path, *, exclusive: bool = False, wait: bool = True, like: Iterable[Path] = ()
) -> Iterator[BinaryIO]:
    """Opens a hidden file that takes the place of another at the end, if nothing failed.

    A link stays, and its target is replaced. A device or a pipe is written to at once.

    Args:
        exclusive: replaces nothing.
        wait: for another process that writes the same file.
        like: nobody may read the new file who may not read these, and the one before.

    Raises:
        FileExistsError: another is there, at the beginning or at the end, with `exclusive`.
        filelock.Timeout: another process writes the same file, without `wait`.
    """
    if path.exists() and not path.is_file():
        with path.open("wb") as file:
            yield file
        return
    if exclusive and os.path.lexists(path):
        raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), str(path))
    target = Path(os.path.realpath(path))
    mode = 0o666
    for other in (*like, target):
        if other.exists():
            mode &= other.stat().st_mode
    fresh = beside(target, "part")
    with held(beside(target, "lock"), wait=wait):
        fresh.unlink(missing_ok=True)  # what a killed process left
        try:
            with open(fresh, "xb", opener=partial(os.open, mode=mode | 0o600)) as file:
                yield file
                file.flush()
                os.fsync(file.fileno())
            if exclusive:
                try:
                    os.link(fresh, target)
                except (AttributeError, OSError):  # not every system and file system has links
                    target.open("xb").close()
            fresh.replace(target)
            sync(target.parent)
        finally:
            fresh.unlink(missing_ok=True)


def beside(path: Path, kind: str) -> Path:
    """Names a hidden file in the folder of another, however long the other's name is."""
    digest = hashlib.sha256(os.fsencode(path.name)).hexdigest()
    return path.with_name(f".headlight-{digest[:16]}.{kind}")


@contextmanager
def held(path: Path, *, wait: bool = False) -> Iterator[None]:
    """Holds a file that one process at a time can hold; it is gone afterwards.

    Raises:
        filelock.Timeout: another process holds it, and `wait` is false.
    """
    with FileLock(path, blocking=wait):
        try:
            yield
        finally:
            with suppress(OSError):  # on Windows the lock removes it
                path.unlink(missing_ok=True)


@contextmanager
def replacing_folder(path: Path) -> Iterator[Path]:
    """Makes a hidden folder that takes the place of another at the end, if nothing failed.

    On Linux there is a folder at the path all the time. Elsewhere, and where the file system cannot
    exchange two folders, there is none for an instant.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    with held(beside(path, "lock"), wait=True):
        fresh, old = beside(path, "new"), beside(path, "old")
        settle_folder(path)
        try:
            fresh.mkdir()
            yield fresh
            for file in [*fresh.iterdir(), fresh]:
                sync(file)
            if not (path.exists() and _exchange(fresh, path)):
                if path.exists():
                    path.rename(old)
                fresh.rename(path)
            sync(path.parent)
        finally:
            settle_folder(path)


def settle_folder(path: Path) -> None:
    """Removes what was left of replacing a folder, or puts it back if it is the only one."""
    old = beside(path, "old")
    if not path.exists() and old.exists():
        old.rename(path)
    for left in (beside(path, "new"), old):
        shutil.rmtree(left, ignore_errors=True)


def remove_folder(path: Path) -> None:
    """Removes a folder, and what was left of replacing it."""
    settle_folder(path)
    shutil.rmtree(path, ignore_errors=True)


def _exchange(first: Path, second: Path) -> bool:
    """Exchanges two paths in one step; False if that is not possible here."""
    if sys.platform != "linux":
        return False
    rename = getattr(ctypes.CDLL(None), "renameat2", None)  # not in old libraries
    if rename is None:
        return False
    paths = (_HERE, os.fsencode(first), _HERE, os.fsencode(second))
    return bool(rename(*paths, _EXCHANGE) == 0)


def sync(path: Path) -> None:
    """Flushes a file, or the entries of a folder where the system can, to the disk."""
    is_folder = path.is_dir()
    with suppress(OSError) if is_folder else nullcontext():  # Windows opens no folder
        descriptor = os.open(path, os.O_RDONLY if is_folder else os.O_RDWR)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
