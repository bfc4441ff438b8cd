"""Repeats a pass in halves, down to single texts, when memory runs out."""

import logging
from collections.abc import Callable, Sequence
from typing import TypeVar

from model.backends.base import Backend

Entry = TypeVar("Entry")
Result = TypeVar("Result")

logger = logging.getLogger("headlight.memory")


def in_halves(
    run: Callable[[Sequence[Entry]], Sequence[Result]], entries: Sequence[Entry], backend: Backend
) -> list[Result]:
    """Runs a pass, and repeats it in halves as long as memory runs out.

    Raises:
        Exception: any other error of `run`, or that of a single entry which is too large.
    """
    try:
        return list(run(entries))
    except Exception as error:
        if len(entries) == 1 or not backend.is_out_of_memory(error):
            raise
    # After the handler: its traceback would keep the tensors of the failed pass.
    backend.free_memory()
    logger.warning("a pass ran out of memory: once more in halves", extra={"texts": len(entries)})
    middle = len(entries) // 2
    return [
        *in_halves(run, entries[:middle], backend),
        *in_halves(run, entries[middle:], backend),
    ]
