"""Prepares the process of a command: its standard streams, and what a closed terminal means."""

import io
import os
import signal
import sys


def prepare_process() -> None:
    """Opens closed standard streams on the null device; takes SIGHUP for SIGTERM unless ignored.

    Else the next file or socket would get their descriptors. What is for a closed standard output
    goes to standard error. Escapes stand for what its encoding lacks.
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
