"""Finds the input files that names stand for: files, folders, globs and URLs."""

import glob
import os
import posixpath
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from functools import cache, partial
from pathlib import Path

from model.errors import TableError
from model.tables.files import FORMATS, format_of
from model.tables.pieces import TableFile
from scoring.stores import FileStatus, Store, is_url, relative, store_of

#: what a glob has and a plain path lacks
GLOB = re.compile(r"[*?\[]")
_DELTA = "files of a Delta table's log, so rows that it has removed are scored too"
_OTHER = "files that have another suffix"
_SHOWN = 3


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
    """The input files in their order, and the paths that were skipped, by their kind."""

    files: tuple[InputFile, ...]
    skipped: Mapping[str, Sequence[str]]

    def skipped_lines(self) -> Iterator[str]:
        """Yields a line for each kind of what was skipped."""
        for kind, paths in self.skipped.items():
            yield f"skipped {len(paths):,} {kind}: {', '.join(paths[:_SHOWN])}"


def find_inputs(names: Sequence[str], *, output: str) -> Inputs:
    """Finds files, those of a folder or a glob in the order of their paths.

    Hidden files, names that begin with an underscore, and the output are left out of folders.

    Raises:
        TableError: a name matches no file or is not UTF-8, a file is named twice, its suffix
            is unknown, or it is no file, such as a link that leads nowhere.
        ScoringError: the scheme of a URL is unknown.
    """
    files: list[InputFile] = []
    skipped: dict[str, list[str]] = {}
    real_folder = cache(os.path.realpath)  # of thousands of files this is most of the time
    inside_output = (output if is_url(output) else os.path.realpath(output)).rstrip("/") + "/"
    for name in names:
        found: dict[str, InputFile] = {}
        store = store_of(name)
        for status, is_chosen in _expand(name, store):
            real = _real(status.path, real_folder)
            if status.path != name and real.startswith(inside_output):
                continue
            opened = partial(store.open, status.path)
            # Only a .zip that the user names is looked into.
            form = format_of(status.path, opened if is_chosen and not status.unread else None)
            if is_chosen:
                _check(status, is_known=form is not None)
            if status.unread or form is None:
                skipped.setdefault(status.unread or _OTHER, []).append(status.path)
                continue
            try:
                status.path.encode()
            except UnicodeEncodeError as error:
                raise TableError(status.path, "the name is not UTF-8: rename the file") from error
            file = InputFile(status, TableFile(status.path, *form, opened), real)
            other = found.setdefault(real, file)
            if Path(other.path) != Path(file.path):  # one is a link to the other, or both are
                found[real] = other if Path(file.path).is_symlink() else file
                link = (file if found[real] is other else other).path
                skipped.setdefault("links to files that are read anyway", []).append(link)
        if not found:
            fault = f"holds no file that is read: use {FORMATS}"
            raise TableError(name, "; ".join([fault, *Inputs((), skipped).skipped_lines()]))
        files += sorted(found.values(), key=lambda file: file.path)
    _check_unique(files)
    return Inputs(tuple(files), skipped)


def _expand(name: str, store: Store) -> Iterator[tuple[FileStatus, bool]]:
    """Yields the files of a name, and whether each was named itself."""
    status, wildcard = store.status(name), GLOB.search(name)
    if Path(name).is_dir() or (is_url(name) and status is None and wildcard is None):
        yield from ((file, False) for file in _marked(store.files(name), name))
    elif status is not None:
        yield status, True
    elif wildcard is None:
        raise TableError(name, "does not exist: give files, folders, globs or URLs")
    else:
        folder = name[: name.rfind("/", 0, wildcard.start()) + 1]
        found = _matches(name, folder, store)
        if not _is_hidden(name[len(folder) :]):  # as the user spells it
            found = _marked(found, folder)
        yield from ((file, not file.unread) for file in found)


def _matches(name: str, folder: str, store: Store) -> Iterable[FileStatus]:
    """Returns the files that a glob fits, and those of the folders that it fits."""
    if is_url(name):
        return [file for file in store.files(folder) if fnmatchcase(file.path, name)]
    found: dict[Path, FileStatus] = {}
    for match in sorted(glob.glob(name, recursive=True)):  # noqa: PTH207 - also absolute ones
        is_folder = Path(match).is_dir()
        for file in store.files(match) if is_folder else filter(None, [store.status(match)]):
            is_other = is_folder and format_of(file.path) is None
            found.setdefault(Path(file.path), replace(file, unread=_OTHER) if is_other else file)
    return found.values()


def _marked(files: Iterable[FileStatus], folder: str) -> Iterator[FileStatus]:
    """Marks files that are hidden, as Spark hides them; leaves out those that are never read."""
    for file in files:
        below = relative(file.path, folder)
        if _is_hidden(below):
            if format_of(file.path) is None:  # such as _SUCCESS
                continue
            file = replace(file, unread=_DELTA if "_delta_log/" in below else "hidden files")
        yield file


def _is_hidden(path: str) -> bool:
    steps = path.split("/")
    return any(each[:1] == "." or (each[:1] == "_" and "=" not in each) for each in steps)


def _real(path: str, real_folder: Callable[[str], str]) -> str:
    """Returns a path without links; a URL stays, since stores have none."""
    if is_url(path) or Path(path).is_symlink():
        return path if is_url(path) else os.path.realpath(path)
    folder, name = os.path.split(path)
    return posixpath.join(real_folder(folder), name)


def _check(file: FileStatus, *, is_known: bool) -> None:
    """Raises TableError for a file that the user names and that is not read."""
    if file.unread:
        raise TableError(file.path, f"is not read, like all {file.unread}: give a file")
    if not is_known:
        raise TableError(file.path, f"has no suffix that is read: use {FORMATS}, or rename it")


def _check_unique(files: Sequence[InputFile]) -> None:
    seen: dict[str, str] = {}
    for file in files:
        if file.real in seen:
            raise TableError(file.path, f"is named twice, also as {seen[file.real]}: name it once")
        seen[file.real] = file.path
