"""Reads, digests and writes the files of a checkpoint folder; every error names the file."""

import hashlib
import json
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from model.errors import CheckpointError

WEIGHTS = "model.safetensors"
CONFIG = "config.json"
MANIFEST = "headlight.json"
# What `model.checkpoint.signing` writes. It covers all of the files above.
SIGNATURE = "model.sig"
# Far above any vocabulary. What is read whole must fit into the memory several times over.
MOST_BYTES = 64_000_000


def check_folder(path: Path) -> None:
    """Raises CheckpointError for a path where no folder is, or none that can be read."""
    try:
        if path.is_dir():
            return
        fault = "is not a folder" if path.exists() else "does not exist"
    except OSError as error:  # the name is too long, or a parent folder is not accessible
        raise CheckpointError(path, f"cannot be read: {error.strerror}") from error
    raise CheckpointError(path, f"{fault}: give the path of a checkpoint folder")


def read_object(path: Path) -> dict[str, Any]:
    """Reads a file that holds one JSON object.

    Raises:
        CheckpointError: the file is missing, too large, cannot be read or is not a JSON object.
    """
    check_size(path)
    try:
        with _name_file_in_errors(path):
            content = json.loads(path.read_text(encoding="utf-8"))
    except (ValueError, RecursionError) as error:
        raise CheckpointError(path, f"is not JSON: {error}") from error
    if not isinstance(content, dict):
        raise CheckpointError(path, f"must hold a JSON object, holds {type(content).__name__}")
    return content


def check_size(path: Path) -> None:
    """Raises CheckpointError for a file that is missing, or too large to be read as text."""
    with _name_file_in_errors(path):
        size = path.stat().st_size
    if size > MOST_BYTES:
        raise CheckpointError(path, f"has {size} bytes, at most {MOST_BYTES} are read")


@contextmanager
def _name_file_in_errors(path: Path) -> Iterator[None]:
    """Turns an error of a file into a CheckpointError that names the file."""
    try:
        # Reading a device or a pipe may never end.
        if path.exists() and not (path.is_file() or path.is_dir()):
            raise CheckpointError(path, "is a device or a pipe: put a regular file there")
        yield
    except FileNotFoundError as error:
        raise CheckpointError(path, "is missing") from error
    except OSError as error:
        raise CheckpointError(path, f"cannot be read: {error.strerror}") from error


def write_object(path: Path, content: Mapping[str, Any]) -> None:
    """Writes one JSON object, in UTF-8 and indented."""
    path.write_bytes(to_bytes(content))


def to_bytes(content: Mapping[str, Any]) -> bytes:
    """Returns one JSON object as it is written, in UTF-8 and indented."""
    return (json.dumps(content, indent=2, ensure_ascii=False) + "\n").encode()


def read_bytes(path: Path) -> bytes:
    """Reads a whole file; raises CheckpointError if it is missing or cannot be read."""
    with _name_file_in_errors(path):
        return path.read_bytes()


def digest(path: Path) -> str:
    """Computes the SHA-256 of a file, in hex; raises as `read_bytes` does."""
    with _name_file_in_errors(path), path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def write_whole(path: Path, content: bytes) -> None:
    """Replaces a file atomically: readers see the old content or the whole new content."""
    beside = path.with_name(f".{path.name}.part")
    try:
        beside.write_bytes(content)
        sync(beside)
        beside.replace(path)
    except OSError:
        with suppress(OSError):  # half a file is useless, and takes space
            beside.unlink(missing_ok=True)
        raise


def sync(path: Path) -> None:
    """Flushes a file, or the entries of a folder, to the disk."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
