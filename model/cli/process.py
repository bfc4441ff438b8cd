"""Prepares the process of a command: its streams, what a closed terminal means, and its heap.

glibc gives each thread a heap of its own, so a replica would hold the largest pass of each.
"""

import ctypes
import io
import os
import signal
import sys
from functools import cache
from importlib.util import find_spec
from pathlib import Path

_ARENA_MAX = -8  # mallopt's number in glibc's malloc.h


def prepare_process() -> None:
    """Opens closed standard streams on the null device; takes SIGHUP for SIGTERM unless ignored.

    Else the next file or socket would get their descriptors. Standard error stands for a closed
    standard output, escapes for what its encoding lacks.
    """
    is_closed = sys.stdout is None
    for name in ("stdin", "stdout", "stderr"):
        if getattr(sys, name) is None:
            descriptor = os.open(os.devnull, os.O_RDWR)  # the lowest that is free, which is its own
            os.set_inheritable(descriptor, True)
            mode = "r" if name == "stdin" else "w"
            setattr(sys, name, os.fdopen(descriptor, mode, closefd=False))
    if is_closed:
        sys.stdout = sys.stderr
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="backslashreplace")
    hang_up = getattr(signal, "SIGHUP", None)  # not on Windows
    if hang_up is not None and signal.getsignal(hang_up) is signal.SIG_DFL:
        signal.signal(hang_up, lambda *_: signal.raise_signal(signal.SIGTERM))


def share_one_heap() -> None:
    """Lets all threads that start from now on allocate from the heap of the process."""
    if (library := _glibc()) is not None:
        library.mallopt(_ARENA_MAX, 1)


def return_memory() -> None:
    """Returns free memory to the system; takes some milliseconds."""
    if (library := _glibc()) is not None:
        library.malloc_trim(0)


def open_torch() -> None:
    """Opens the libraries of torch, if it is there, before Python imports it.

    An import opens them too, but stops all other threads meanwhile, for some tenths of a second.
    """
    library, found = _glibc(), find_spec("torch")
    if library is not None and found is not None and found.origin is not None:
        folder = os.fsencode(Path(found.origin).parent) + b"/lib/libtorch_"
        library.dlopen(folder + b"global_deps.so", os.RTLD_LAZY | os.RTLD_GLOBAL)
        library.dlopen(folder + b"cpu.so", os.RTLD_LAZY)


@cache
def _glibc() -> ctypes.CDLL | None:
    """Loads the C library of this process if it is glibc."""
    if not sys.platform.startswith("linux"):
        return None
    library = ctypes.CDLL(None)
    return library if hasattr(library, "gnu_get_libc_version") else None
