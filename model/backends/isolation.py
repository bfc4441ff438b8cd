"""Finds the texts on which a pass fails, so that the others of the pass get their answers."""

import logging
from collections.abc import Callable, Sequence
from typing import TypeVar

from model.backends.base import Backend

Entry = TypeVar("Entry")
Result = TypeVar("Result")

logger = logging.getLogger("headlight.isolation")


def isolate(
    run: Callable[[Sequence[Entry]], Sequence[Result | Exception]],
    entries: Sequence[Entry],
    backend: Backend,
    *,
    control: Callable[[], object],
) -> list[Result | Exception]:
    """Runs a pass, and repeats the halves of what fails, about log2 N times for one bad text of N.

    Where everything fails, the search ends early: once two texts could have been found, no part is
    halved again.

    Args:
        run: returns a result or an error for each entry, in order.
        entries: the batch, at least one entry.
        backend: where the pass runs.
        control: runs a sound text the same way. It is called if every entry failed. If it fails
            too, the fault lies with the device or the weights, not with the entries.

    Raises:
        Exception: the device is lost, or `control` failed too.
    """
    results: list[Result | Exception] = []
    parts = [entries]  # the first one is last
    most_failures = 2 * len(entries).bit_length() + 1
    failures = 0
    while parts:
        part = parts.pop()
        try:
            results += run(part)
            continue
        except Exception as error:
            if backend.is_fatal(error):
                raise
            if not failures:
                logger.warning("a pass failed", exc_info=error, extra={"texts": len(part)})
            # The frames of a traceback would keep the results and the tensors alive.
            fault = error.with_traceback(None)
            fault.__context__ = fault.__cause__ = None
        if backend.is_out_of_memory(fault):
            backend.free_memory()
        failures += 1
        if len(part) == 1 or failures >= most_failures:
            results += [fault] * len(part)
        else:
            middle = len(part) // 2
            parts += [part[middle:], part[:middle]]
    faults = [result for result in results if isinstance(result, Exception)]
    if len(faults) == len(results):
        _blame(faults[0], backend, control)
    return results


def _blame(fault: Exception, backend: Backend, control: Callable[[], object]) -> None:
    """Raises the fault of a pass if a sound text fails too."""
    try:
        control()
    except Exception as error:
        if backend.is_fatal(error):
            raise
        raise fault from None
