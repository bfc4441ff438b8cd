"""Divides the tokens of a long text into windows as long as the model reads at once.

A window begins three quarters of a window after the one before, so that every token but those at
the ends of the text has neighbours on both sides in one of its windows.
"""

from typing import Literal

#: what becomes of a text that is longer than the model reads: which end is cut off, `error` refuses
#: it, `window` reads it whole
Reading = Literal["right", "left", "error", "window"]
#: the most windows of a text unless a setting says another number
MAX_WINDOWS = 64

_OVERLAP = 4  # the part of a window that the next one reads again: a quarter


def window_step(room: int) -> int:
    """Returns how many tokens after a window the next one begins."""
    return room - room // _OVERLAP


def most_tokens(room: int, max_windows: int) -> int:
    """Returns how many tokens of a text fit into so many windows."""
    return room + (max_windows - 1) * window_step(room)


def divide(count: int, room: int) -> list[slice]:
    """Divides tokens into one window or more; all but the last have `room` tokens."""
    step = window_step(room)
    windows = 1 + max(0, -(-(count - room) // step))
    return [slice(start, min(start + room, count)) for start in range(0, windows * step, step)]
