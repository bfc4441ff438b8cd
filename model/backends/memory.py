"""A batch that memory does not hold is computed in halves, down to single texts."""

import logging
from collections.abc import Callable, Sequence
from typing import TypeVar

import torch

Entry = TypeVar("Entry")
Result = TypeVar("Result")

logger = logging.getLogger("headlight.memory")

# What torch's allocator for processors says; it raises a plain RuntimeError.
_CPU_MESSAGES = ("can't allocate memory", "not enough memory")


def in_halves(
    run: Callable[[Sequence[Entry]], Sequence[Result]], entries: Sequence[Entry]
) -> list[Result]:
    """Runs a pass, and again in halves as long as memory does not hold it.

    Args:
        run: a result for each entry, in their order.
        entries: at least one.

    Raises:
        Exception: what `run` raises, if it is anything else, or if a single entry is too large.
    """
    try:
        return list(run(entries))
    except Exception as error:
        if len(entries) == 1 or not is_out_of_memory(error):
            raise
    # Outside of the handler, whose traceback would keep the tensors of the failed pass.
    if torch.cuda.is_available():
        torch.cuda.empty_cache()
    logger.warning("a pass ran out of memory: once more in halves", extra={"texts": len(entries)})
    middle = len(entries) // 2
    return [*in_halves(run, entries[:middle]), *in_halves(run, entries[middle:])]


def is_out_of_memory(error: BaseException) -> bool:
    """Whether an error says that memory, of the machine or of a GPU, was not enough."""
    if isinstance(error, MemoryError | torch.OutOfMemoryError):
        return True
    return isinstance(error, RuntimeError) and any(
        message in str(error) for message in _CPU_MESSAGES
    )
