"""Where the process stands between its start and its end, as everybody may ask."""

from dataclasses import dataclass


@dataclass(slots=True)
class Lifecycle:
    """Flags that only ever turn from False to True.

    Args:
        draining: readiness is off, all else is answered, and connections are closed behind it.
        ended: the drain time is over; what still comes in is refused.
        stuck: a thread is in a forward pass that does not end, so the process must be ended.
    """

    draining: bool = False
    ended: bool = False
    stuck: bool = False
