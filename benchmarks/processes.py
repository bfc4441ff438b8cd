"""From the id of a process to all that it started: signalled, weighed and watched as one.

On Linux they are known by their parents, because a server may put its workers into sessions, and so
into groups, of their own, as BentoML does. Elsewhere the group of the first process is all.
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
    """What the kernel says of a process.

    Args:
        parent: the id of what started it, or of who took it over since.
        group: of processes.
        ticks: of processor time that it took.
        began: in ticks since the machine was started, so that an id that is used again is noticed.
    """

    parent: int
    group: int
    ticks: int
    began: int


class ProcessTree:
    """A process that leads a group, and all that it started.

    Args:
        first: the id of the process and of its group.

    Attributes:
        first: the same.
    """

    def __init__(self, first: int) -> None:
        self.first = first
        # A process outlives its parent at times, and then no parent leads to it.
        self._known: dict[int, int] = {}

    def signal(self, number: signal.Signals) -> None:
        """Sends a signal to each, also to those that are started meanwhile.

        Args:
            number: of the signal; nothing happens if all have ended.
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
        """The memory that all hold, what several share counted once; None where nothing tells."""
        if not (_PROC / "self" / "smaps_rollup").exists():
            return None
        held = 0
        for each in self._alive():
            with suppress(OSError):  # it ended meanwhile
                found = _SHARE.search((_PROC / str(each) / "smaps_rollup").read_text("ascii"))
                held += int(found[1]) * _KIBIBYTE if found else 0
        return held

    def processor_seconds(self) -> float:
        """The processor time that those took which run now; 0 where nothing tells."""
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
    """All processes of the machine that have not ended, by their ids."""
    found: dict[int, _Process] = {}
    for path in _PROC.glob("[0-9]*/stat"):
        with suppress(OSError):  # it ended meanwhile
            text = path.read_text(encoding="utf-8", errors="replace")
            # The name, in parentheses, may hold spaces; the state is the first field behind it.
            state, *rest = text.rpartition(")")[2].split()
            if state not in "ZX":
                numbers = list(map(int, rest))
                found[int(path.parent.name)] = _Process(
                    numbers[0], numbers[1], numbers[10] + numbers[11], numbers[18]
                )
    return found
