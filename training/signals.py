"""SIGINT and SIGTERM during a run: noted, and asked for where the run can stop."""

import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType

_SIGNALS = (signal.SIGINT, signal.SIGTERM)


@contextmanager
def noted_signals() -> Iterator[Callable[[], int | None]]:
    """Notes the first of the signals; a second one ends the process as usual.

    Yields:
        A function that returns the number of the signal that came, or None.
    """
    received: list[int] = []
    before = {number: signal.getsignal(number) for number in _SIGNALS}

    def note(number: int, frame: FrameType | None) -> None:
        del frame
        received.append(number)
        signal.signal(number, signal.SIG_DFL)

    for number in _SIGNALS:
        signal.signal(number, note)
    try:
        yield lambda: received[0] if received else None
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
