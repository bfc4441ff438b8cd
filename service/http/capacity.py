"""Refuses what the process has no capacity for: more connections, or more memory.

Beyond the limit of connections, the one idle for longest is closed. If none is idle, the new one is
an extra connection: only its health check is answered. Open files are reserved for all of this.
Sources for memory: the kernel's admin-guide/cgroup-v2.rst and cgroup-v1/memory.rst.
"""

import logging
import time
from collections import OrderedDict
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, Protocol

from model.backends.threads import group_folders
from service.errors import OverloadedError, Refusal
from service.logs import Seldom
from service.metrics import Metrics

try:
    import resource
except ImportError:  # not on Windows, where sockets are no files
    resource = None  # type: ignore[assignment]

logger = logging.getLogger("headlight.server")

# Extra connections, which wait for the head of a health check.
_EXTRA = 16
# A connection that has just come, or has just been answered, is not idle yet.
_IDLE_SECONDS = 1.0
# Files that the process has open without any connection, with some to spare.
_OWN_FILES = 40
# Connections that the kernel may hand over at once, before any of them can be closed.
_MOST_BACKLOG = 2048
_MOST_CONNECTIONS = 4096
_FEWEST = 16
_ENDLESS = 2**30

# Above the first, requests with large answers or bodies are refused; above the second, all that
# compute. Health is always answered.
LARGE_SHARE = 0.90
ANY_SHARE = 0.95
# Bodies up to this size are small.
SMALL_BODY = 65_536

_SAMPLE_SECONDS = 0.25
_RETRY_SECONDS = 2.0
# Of versions 2 and 1: the limit, the usage, and what of it the kernel can drop.
_FILES = (
    ("memory.max", "memory.current", "inactive_file"),
    ("memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file"),
)
# Version 1 has a number like this for "no limit".
_NO_LIMIT = 2**60


@dataclass(frozen=True, slots=True)
class Capacity:
    """Open and waiting connections that the limit of open files allows; -1 files: no limit."""

    connections: int
    backlog: int
    files: int


def plan_capacity(wanted: int | Literal["auto"], files: int | None = None) -> Capacity:
    """Divides the open files among connections, those that wait, and the process itself.

    Args:
        wanted: number of connections; `auto` takes as many as are sensible.
        files: the limit of open files; that of the process if None.

    Raises:
        ValueError: the limit does not allow so many.
    """
    if files is None:
        files = -1
        if resource is not None:
            files, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    free = _ENDLESS if files < 0 else files - _OWN_FILES - _EXTRA
    backlog = min(_MOST_BACKLOG, max(_FEWEST, free // 4))
    most = free - backlog
    connections = min(_MOST_CONNECTIONS, most) if wanted == "auto" else wanted
    if connections > most or connections < 1:
        needed = max(_FEWEST, 0 if wanted == "auto" else wanted)
        raise ValueError(
            f"{needed} connections do not fit into {files} open files: raise the limit "
            f"(ulimit -n) to {2 * needed + _OWN_FILES + _EXTRA + _FEWEST} or more"
            + ("" if wanted == "auto" else f", or lower this to {max(most, 0)} or less")
        )
    return Capacity(connections, backlog, files)


class Connection(Protocol):
    """What `Connections` needs of a connection."""

    def can_close(self) -> bool:
        """Whether nothing is lost if it closes now."""

    def drop(self) -> None:
        """Closes at once."""


class Connections:
    """All open connections."""

    def __init__(self, most: int, metrics: Metrics) -> None:
        self.most = most
        self._metrics = metrics
        self._open: set[Connection] = set()
        self._idle: OrderedDict[Connection, float] = OrderedDict()
        self._extra: OrderedDict[Connection, None] = OrderedDict()
        self._is_full = False
        self._lines = Seldom()

    def enter(self, connection: Connection, now: float) -> bool:
        """Takes a new connection; returns whether it is an extra one, beyond the limit."""
        is_extra = len(self._open) >= self.most and not self._close_longest_idle(now)
        if is_extra:
            self._note_full(now)
            if len(self._extra) >= _EXTRA:
                self._close(next(iter(self._extra)))
            self._extra[connection] = None
        else:
            self._open.add(connection)
        self._show()
        return is_extra

    def leave(self, connection: Connection) -> None:
        """Forgets a connection that is closed."""
        self._forget(connection)
        if self._is_full and len(self._open) < self.most * 0.9:
            self._is_full = False
            logger.info(
                "there is room for connections again",
                extra={"open": len(self._open), "limit": self.most},
            )

    def rest(self, connection: Connection, now: float) -> None:
        """Notes that a connection waits for its next request."""
        self._idle[connection] = now
        self._idle.move_to_end(connection)

    def wake(self, connection: Connection) -> None:
        """Notes that a connection is in use."""
        self._idle.pop(connection, None)

    def rejection(self) -> OverloadedError:
        """Returns the error of a request on an extra connection."""
        return OverloadedError(
            f"The service has {self.most} connections, which is its limit: try again later, ask "
            "another replica, or use one connection for many requests.",
            refusal=Refusal.CONNECTIONS,
            retry_after=1,
        )

    def _close_longest_idle(self, now: float) -> bool:
        """Closes an idle connection; returns False if none is idle."""
        for _ in range(_EXTRA):
            connection, since = next(iter(self._idle.items()), (None, now))
            if connection is None or now - since < _IDLE_SECONDS:
                return False
            if connection in self._open and connection.can_close():
                self._note_full(now)
                self._close(connection)
                return True
            self.rest(connection, now)  # an answer is still on its way
        return False

    def _close(self, connection: Connection) -> None:
        self._metrics.connections_closed.inc()
        self._forget(connection)
        connection.drop()

    def _forget(self, connection: Connection) -> None:
        self._open.discard(connection)
        self._idle.pop(connection, None)
        self._extra.pop(connection, None)
        self._show()

    def _show(self) -> None:
        self._metrics.connections.set(len(self._open) + len(self._extra))

    def _note_full(self, now: float) -> None:
        """Logs that all connections are taken, once a minute at most."""
        if self._lines.others(now) is not None:
            self._is_full = True
            logger.warning(
                "all connections are taken: idle ones are closed, others are refused",
                extra={"limit": self.most},
            )


@dataclass(frozen=True, slots=True)
class _Group:
    """A control group: its limit in bytes, and the files that hold what it uses.

    The usage includes files that the kernel can drop, which the statistics name `cache`.
    """

    limit: int
    usage: Path
    statistics: Path
    cache: str

    def share(self) -> float:
        """Returns the part of the limit that is in use; 0 if the files are gone."""
        try:
            used = int(self.usage.read_text("ascii"))
            words = self.statistics.read_text("ascii").split()
            cache = int(words[words.index(self.cache) + 1])
        except (OSError, ValueError, IndexError):
            return 0.0
        return (used - cache) / self.limit


class MemoryWatch:
    """Refuses requests while the memory is nearly full; without a limit it refuses none.

    Args:
        root: where the control groups are mounted.
        own: the file that names the groups of the process.
        clock: seconds.
    """

    def __init__(
        self,
        *,
        root: Path | None = None,
        own: Path | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        folders = group_folders("memory", root=root, own=own)
        self._groups = [group for folder in folders for group in _groups_in(folder)]
        self._clock = clock
        self._next = clock()
        self._share = 0.0

    @property
    def share(self) -> float:
        """The part of the memory in use, from 0 to 1, at most a quarter of a second old."""
        if self._groups and self._clock() >= self._next:
            self._next = self._clock() + _SAMPLE_SECONDS
            self._share = max(group.share() for group in self._groups)
        return self._share

    def check(self, most: float) -> None:
        """Raises OverloadedError if a larger share of the memory than `most` is in use."""
        if self.share <= most:
            return
        kind = "no request that computes" if most >= ANY_SHARE else "no large request"
        raise OverloadedError(
            f"{self._share:.0%} of the memory is in use, and above {most:.0%} the service takes "
            f"{kind}: try again later, or ask another replica.",
            refusal=Refusal.MEMORY,
            retry_after=_RETRY_SECONDS,
        )


def _groups_in(folder: Path) -> Iterator[_Group]:
    for limit, usage, cache in _FILES:
        try:
            most = int((folder / limit).read_text("ascii"))
        except (OSError, ValueError):  # there is no such group, or its limit is "max"
            continue
        if 0 < most < _NO_LIMIT:
            yield _Group(most, folder / usage, folder / "memory.stat", cache)
