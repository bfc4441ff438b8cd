"""Handles SIGINT and SIGTERM of a command: notes them until it can stop, or raises at once."""

import math
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType

_SIGNALS = (signal.SIGINT, signal.SIGTERM)
# Ctrl-C often comes twice, from the terminal and from what started the command.
_SECONDS_OF_ONE = 1.0


class Interruption(KeyboardInterrupt):
    """A signal ended a command: no fault of a text. The message says how to go on."""

    def __init__(self, signal: int, message: str) -> None:
        super().__init__(signal, message)
        self.signal = signal

    def __str__(self) -> str:
        return str(self.args[1])


@contextmanager
def noted_signals() -> Iterator[Callable[[], int | None]]:
    """Notes the first signal, whose number it yields then; a second one ends the process."""
    received: list[int] = []

    def note(number: int, frame: FrameType | None) -> None:
        del frame
        received.append(number)
        signal.signal(number, signal.SIG_DFL)

    with _handled(note):
        yield lambda: received[0] if received else None


@contextmanager
def raised_signals(message: Callable[[], str]) -> Iterator[None]:
    """Raises an Interruption when a signal comes, so that unfinished work is cleaned up."""
    last = -math.inf

    def fail(number: int, frame: FrameType | None) -> None:
        nonlocal last
        del frame
        if time.monotonic() - last > _SECONDS_OF_ONE:
            last = time.monotonic()
            raise Interruption(number, message())

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
