"""Handles SIGINT and SIGTERM during a run: notes them until it can stop, or raises at once."""

import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import NoReturn

_SIGNALS = (signal.SIGINT, signal.SIGTERM)


@contextmanager
def noted_signals() -> Iterator[Callable[[], int | None]]:
    """Notes the first signal. A second one ends the process as usual.

    Yields:
        A function that returns the number of the signal that came, or None.
    """
    received: list[int] = []

    def note(number: int, frame: FrameType | None) -> None:
        del frame
        received.append(number)
        signal.signal(number, signal.SIG_DFL)

    with _handled(note):
        yield lambda: received[0] if received else None


@contextmanager
def raised_signals(error: Callable[[int], Exception]) -> Iterator[None]:
    """Raises an error when a signal comes, so that unfinished work is cleaned up."""

    def fail(number: int, frame: FrameType | None) -> NoReturn:
        del frame
        raise error(number)

    with _handled(fail):
        yield


@contextmanager
def _handled(handler: Callable[[int, FrameType | None], None]) -> Iterator[None]:
    before = {number: signal.signal(number, handler) for number in _SIGNALS}
    try:
        yield
    finally:
        for number, earlier in before.items():
            signal.signal(number, earlier)
