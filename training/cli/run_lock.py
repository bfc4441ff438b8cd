"""Keeps two commands from writing into one folder."""

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from filelock import Timeout

from model.atomic import beside, held
from training.distributed import SINGLE_PROCESS, Ranks
from training.errors import RecipeError


@contextmanager
def locked(*folders: Path, ranks: Ranks = SINGLE_PROCESS) -> Iterator[None]:
    """Locks folders for a command, in the first process for all; raises `RecipeError` if in use.

    The system unlocks them when the process ends, however it ends.
    """
    with ExitStack() as stack:
        problem = ""
        for folder in map(Path.resolve, folders if ranks.is_first else ()):
            folder.parent.mkdir(parents=True, exist_ok=True)
            try:
                stack.enter_context(held(beside(folder, "run")))
            except Timeout:
                problem = (
                    f"{folder}: another command writes there: wait for it, end it, or choose "
                    "another folder"
                )
                break
        problem = ranks.share_object(problem)
        if problem:
            raise RecipeError(problem)
        yield
