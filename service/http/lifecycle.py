"""Holds how far the end of the process has come.

A file of its own: the server sets the flags, and the gate, which the server imports, reads them.
"""

from dataclasses import dataclass


@dataclass(slots=True)
class Lifecycle:
    """Flags that only turn from False to True.

    Args:
        draining: readiness is off, everything else is answered, and each answer closes its
            connection.
        ended: the drain time is over; new requests are refused.
        stuck: a forward pass does not end, so the process must be killed.
    """

    draining: bool = False
    ended: bool = False
    stuck: bool = False
