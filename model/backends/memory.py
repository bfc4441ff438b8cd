"""Computes a batch in halves, down to single texts, when memory does not hold it."""

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
    """Runs a pass, and again in halves as long as memory does not hold it.

    Args:
        run: a result for each entry, in their order.
        entries: at least one.
        backend: where the pass runs.

    Raises:
        Exception: what `run` raises, if it is anything else, or if a single entry is too large.
    """
    try:
        return list(run(entries))
    except Exception as error:
        if len(entries) == 1 or not backend.is_out_of_memory(error):
            raise
    # Outside of the handler, whose traceback would keep the tensors of the failed pass.
    backend.free_memory()
    logger.warning("a pass ran out of memory: once more in halves", extra={"texts": len(entries)})
    middle = len(entries) // 2
    return [
        *in_halves(run, entries[:middle], backend),
        *in_halves(run, entries[middle:], backend),
    ]
