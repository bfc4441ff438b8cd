"""Keeps the memory that glibc's allocator holds small; does nothing with another allocator.

glibc gives each thread a heap of its own, so a replica would hold the largest pass of each.
"""

import ctypes
import sys
from functools import cache

# mallopt's number in glibc's malloc.h.
_ARENA_MAX = -8


def share_one_heap() -> None:
    """Lets all threads that start from now on allocate from the heap of the process."""
    if (library := _glibc()) is not None:
        library.mallopt(_ARENA_MAX, 1)


def return_memory() -> None:
    """Returns free memory to the system; takes some milliseconds."""
    if (library := _glibc()) is not None:
        library.malloc_trim(0)


@cache
def _glibc() -> ctypes.CDLL | None:
    """Loads the C library of this process if it is glibc."""
    if not sys.platform.startswith("linux"):
        return None
    library = ctypes.CDLL(None)
    return library if hasattr(library, "gnu_get_libc_version") else None
