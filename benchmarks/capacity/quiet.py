"""Tells how busy other programs keep the machine, and waits until they do not."""

import os
import time
from collections.abc import Callable
from pathlib import Path

_STAT = Path("/proc/stat")
# user, nice, system, irq, softirq and steal; not idle, iowait and guest, which user contains.
_BUSY = (0, 1, 2, 5, 6, 7)
# In cores.
QUIET = 0.1
_LOOK_SECONDS = 0.5


def busy_seconds() -> float:
    """Returns the processor time that all programs took since the machine started."""
    fields = _STAT.read_text(encoding="ascii").splitlines()[0].split()[1:]
    return sum(int(fields[place]) for place in _BUSY) / os.sysconf("SC_CLK_TCK")


def wait_until_quiet(
    patience: float,
    *,
    busy: Callable[[], float] = busy_seconds,
    sleep: Callable[[float], None] = time.sleep,
) -> bool:
    """Waits until programs take less than a tenth of a core.

    Args:
        patience: seconds to wait at most.
        busy: gives the processor time so far.
        sleep: waits for some seconds.

    Returns:
        Whether it is quiet now.
    """
    for _ in range(max(1, round(patience / _LOOK_SECONDS))):
        before = busy()
        sleep(_LOOK_SECONDS)
        if busy() - before < QUIET * _LOOK_SECONDS:
            return True
    return False
