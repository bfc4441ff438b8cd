"""Signals and measures a process together with everything it started.

On Linux, processes are found by their parents, because a server may put its workers into sessions
of their own, and so into other groups, as BentoML does. Elsewhere only the group of the first
process is known.
"""

import os
import re
import signal
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

_PROC = Path("/proc")
_SHARE = re.compile(r"^Pss: +(\d+) kB$", re.MULTILINE)
_KIBIBYTE = 1024


@dataclass(frozen=True, slots=True)
class _Process:
    """The kernel's record of a process.

    Args:
        parent: id of the process that started or adopted it.
        group: id of its process group.
        ticks: of processor time that it used.
        began: in ticks since boot, so that a reused id is noticed.
    """

    parent: int
    group: int
    ticks: int
    began: int


class ProcessTree:
    """A process that leads a group, and everything it started.

    Args:
        first: id of the process and of its group.

    Attributes:
        first: the same.
    """

    def __init__(self, first: int) -> None:
        self.first = first
        # A process may outlive its parent; then no parent leads to it.
        self._known: dict[int, int] = {}

    def signal(self, number: signal.Signals) -> None:
        """Sends a signal to each process, also to those that start meanwhile.

        Args:
            number: of the signal. Nothing happens if all processes have ended.
        """
        if not _PROC.exists():
            with suppress(ProcessLookupError):
                os.killpg(self.first, number)
            return
        sent: set[int] = set()
        while new := self._alive().keys() - sent:
            for each in new:
                with suppress(ProcessLookupError):
                    os.kill(each, number)
            sent |= new

    def memory_bytes(self) -> int | None:
        """Returns the memory of all processes, shared memory counted once; None if unknown."""
        if not (_PROC / "self" / "smaps_rollup").exists():
            return None
        held = 0
        for each in self._alive():
            with suppress(OSError):  # it ended meanwhile
                found = _SHARE.search((_PROC / str(each) / "smaps_rollup").read_text("ascii"))
                held += int(found[1]) * _KIBIBYTE if found else 0
        return held

    def processor_seconds(self) -> float:
        """Returns the processor time of the processes that run now; 0 if unknown."""
        return sum(each.ticks for each in self._alive().values()) / os.sysconf("SC_CLK_TCK")

    def _alive(self) -> dict[int, _Process]:
        running = _running()
        found = {
            each: running[each]
            for each, began in self._known.items()
            if each in running and running[each].began == began
        }
        found |= {
            each: process
            for each, process in running.items()
            if self.first in (each, process.group)
        }
        while more := {
            each: process
            for each, process in running.items()
            if each not in found and process.parent in found
        }:
            found |= more
        self._known = {each: process.began for each, process in found.items()}
        return found


def _running() -> dict[int, _Process]:
    """Returns all running processes of the machine by id."""
    found: dict[int, _Process] = {}
    for path in _PROC.glob("[0-9]*/stat"):
        with suppress(OSError):  # it ended meanwhile
            text = path.read_text(encoding="utf-8", errors="replace")
            # The name, in parentheses, may hold spaces. The state is the first field after it.
            state, *rest = text.rpartition(")")[2].split()
            if state not in "ZX":
                numbers = list(map(int, rest))
                found[int(path.parent.name)] = _Process(
                    numbers[0], numbers[1], numbers[10] + numbers[11], numbers[18]
                )
    return found
