"""Finds the input files that names stand for: files, folders, globs and URLs."""

import glob
import os
import posixpath
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from functools import partial
from pathlib import Path

from model.errors import TableError
from model.tables.files import FORMATS, format_of
from model.tables.pieces import TableFile
from scoring.stores import FileStatus, Store, is_url, relative, store_of

#: what a glob has and a plain path lacks
GLOB = re.compile(r"[*?\[]")


@dataclass(frozen=True, slots=True)
class InputFile:
    """A file to score; `real` is its path without links."""

    status: FileStatus
    table: TableFile
    real: str

    @property
    def path(self) -> str:
        """The path or URL."""
        return self.status.path


@dataclass(frozen=True, slots=True)
class Inputs:
    """The input files in their order, and what was skipped.

    `skipped` are files of folders with another suffix; `links` lead to files that are read anyway.
    """

    files: tuple[InputFile, ...]
    skipped: tuple[str, ...]
    links: tuple[str, ...]


def find_inputs(names: Sequence[str], *, output: str) -> Inputs:
    """Finds files, those of a folder or a glob in the order of their paths.

    Hidden files, names that begin with an underscore, and the output are left out of folders.

    Raises:
        TableError: a name matches no file or is not UTF-8, a file is named twice, or its suffix
            is unknown.
        ScoringError: the scheme of a URL is unknown.
    """
    files: list[InputFile] = []
    skipped: list[str] = []
    links: list[str] = []
    folders: dict[str, str] = {}
    inside_output = (output if is_url(output) else os.path.realpath(output)).rstrip("/") + "/"
    for name in names:
        found: dict[str, InputFile] = {}
        store = store_of(name)
        for status, is_chosen in _expand(name, store):
            real = _real(status.path, folders)
            if status.path != name and real.startswith(inside_output):
                continue
            opened = partial(store.open, status.path)
            # Only a .zip that the user names is looked into.
            form = format_of(status.path, opened if is_chosen else None)
            if form is not None:
                _check_utf8(status.path)
                file = InputFile(status, TableFile(status.path, *form, opened), real)
                other = found.setdefault(real, file)
                if other is not file:  # one of them is a link to the other, or both are
                    found[real] = other if Path(file.path).is_symlink() else file
                    links.append((file if found[real] is other else other).path)
            elif is_chosen:
                raise TableError(
                    status.path, f"has no suffix that is read: use {FORMATS}, or rename it"
                )
            else:
                skipped.append(status.path)
        if not found:
            raise TableError(name, f"holds no file that is read: use {FORMATS}")
        files += sorted(found.values(), key=lambda file: file.path)
    _check_unique(files)
    return Inputs(tuple(files), tuple(skipped), tuple(links))


def _expand(name: str, store: Store) -> Iterator[tuple[FileStatus, bool]]:
    """Yields the files of a name, and whether each was named itself."""
    status = store.status(name)
    if is_url(name):
        yield from [(status, True)] if status is not None else _expand_url(name, store)
    elif Path(name).is_dir():
        for file in store.files(name):
            if not _is_hidden(file.path, name):
                yield file, False
    elif status is not None:
        yield status, True
    elif GLOB.search(name):
        for match in sorted(glob.glob(name, recursive=True)):  # noqa: PTH207 - also absolute ones
            matched = store.status(match) if Path(match).is_file() else None
            if matched is not None:
                yield matched, True
    else:
        raise TableError(name, "does not exist: give files, folders, globs or URLs")


def _expand_url(url: str, store: Store) -> Iterator[tuple[FileStatus, bool]]:
    """Yields the files below a URL, or those that its wildcards fit."""
    wildcard = GLOB.search(url)
    if wildcard is None:
        for file in store.files(url):
            if not _is_hidden(file.path, url):
                yield file, False
        return
    folder = url[: url.rindex("/", 0, wildcard.start())]
    for file in store.files(folder):
        if fnmatchcase(file.path, url):
            yield file, True


def _is_hidden(path: str, folder: str) -> bool:
    return any(part.startswith((".", "_")) for part in relative(path, folder).split("/"))


def _real(path: str, folders: dict[str, str]) -> str:
    """Returns a path without links; a URL stays, since stores have none.

    `folders` keeps those of folders: with thousands of files this is most of the time.
    """
    if is_url(path) or Path(path).is_symlink():
        return path if is_url(path) else os.path.realpath(path)
    folder, name = os.path.split(path)
    if folder not in folders:
        folders[folder] = os.path.realpath(folder)
    return posixpath.join(folders[folder], name)


def _check_utf8(path: str) -> None:
    try:
        path.encode()
    except UnicodeEncodeError as error:
        raise TableError(path, "the name is not UTF-8: rename the file") from error


def _check_unique(files: Sequence[InputFile]) -> None:
    seen: dict[str, str] = {}
    for file in files:
        if file.real in seen:
            raise TableError(file.path, f"is named twice, also as {seen[file.real]}: name it once")
        seen[file.real] = file.path
