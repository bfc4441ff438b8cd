"""Signals and measures the processes of a group, found in /proc of Linux."""

import os
import re
import signal
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

_PROC = Path("/proc")
_SHARE = re.compile(r"^Pss: +(\d+) kB$", re.MULTILINE)


class ProcessGroup:
    """A process that leads a group, and everything it started in that group."""

    def __init__(self, leader: int) -> None:
        self.leader = leader

    def signal(self, number: signal.Signals) -> None:
        """Sends a signal to each process; does nothing if all have ended."""
        with suppress(ProcessLookupError):
            os.killpg(self.leader, number)

    def memory_bytes(self) -> int:
        """Returns the memory of all processes, shared memory counted once."""
        total = 0
        for process, _ in self._processes():
            with suppress(OSError):  # it ended meanwhile
                share = _SHARE.search((_PROC / process / "smaps_rollup").read_text("ascii"))
                total += 1024 * int(share[1]) if share else 0
        return total

    def processor_seconds(self) -> float:
        """Returns the processor time of the processes that run now."""
        return sum(ticks for _, ticks in self._processes()) / os.sysconf("SC_CLK_TCK")

    def _processes(self) -> Iterator[tuple[str, int]]:
        """Yields the id of each process, and the processor time in ticks that it has used."""
        for path in _PROC.glob("[0-9]*/stat"):
            with suppress(OSError):  # it ended meanwhile
                text = path.read_text(encoding="utf-8", errors="replace")
                # The name, in parentheses, may hold spaces. The state is the first field after it.
                _, _, group, *fields = text.rpartition(")")[2].split()
                if int(group) == self.leader:
                    yield path.parent.name, int(fields[8]) + int(fields[9])
