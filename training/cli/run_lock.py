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
        fault = ""
        if ranks.is_first and fcntl is not None:
            try:
                for folder in folders:
                    stack.enter_context(_locked(folder))
            except RecipeError as error:
                fault = str(error)
        fault = ranks.share_object(fault)
        if fault:
            raise RecipeError(fault)
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
            # The command before may have removed the file since it was opened here.
            if path.exists() and os.path.samestat(path.stat(), os.fstat(file.fileno())):
                try:
                    yield
                finally:
                    path.unlink(missing_ok=True)
                return
