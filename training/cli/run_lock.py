"""Keeps two commands from writing into one folder; nothing is locked on Windows."""

import os
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from training.distributed import SINGLE_PROCESS, Ranks
from training.errors import RecipeError

try:
    import fcntl
except ImportError:  # not on Windows
    fcntl = None  # type: ignore[assignment]


@contextmanager
def locked(*folders: Path, ranks: Ranks = SINGLE_PROCESS) -> Iterator[None]:
    """Locks folders for this command, which the first of its processes does for all.

    The system unlocks them when the process ends, however it ends.

    Raises:
        RecipeError: another command writes into one of them.
    """
    with ExitStack() as stack:
        problem = ""
        if ranks.is_first and fcntl is not None:
            try:
                for folder in folders:
                    stack.enter_context(_locked(folder))
            except RecipeError as error:
                problem = str(error)
        problem = ranks.share_object(problem)
        if problem:
            raise RecipeError(problem)
        yield


@contextmanager
def _locked(folder: Path) -> Iterator[None]:
    folder = folder.resolve()
    folder.parent.mkdir(parents=True, exist_ok=True)
    path = folder.with_name(f".{folder.name}.lock")
    while True:
        with path.open("ab") as file:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError as error:
                raise RecipeError(
                    f"{folder}: another command writes there: wait for it, end it, or choose "
                    "another folder"
                ) from error
            if _is_there(path, file.fileno()):
                try:
                    yield
                finally:
                    path.unlink(missing_ok=True)
                return


def _is_there(path: Path, opened: int) -> bool:
    """Whether an open file still has its name: the command before removes it at its end."""
    try:
        return os.path.samestat(path.stat(), os.fstat(opened))
    except FileNotFoundError:
        return False
