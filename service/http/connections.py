"""Limits the open connections.

Beyond the limit, the one idle for longest is closed. If none is idle, the new one is an extra
connection: only its health check is answered.
"""

import logging
from collections import OrderedDict
from dataclasses import dataclass
from typing import Literal

from service.errors import OverloadedError, Refusal
from service.http.transport import ClientTransport
from service.logs import LogThrottle
from service.metrics import Metrics

try:
    import resource
except ImportError:  # not on Windows, where sockets are no files
    resource = None  # type: ignore[assignment]

logger = logging.getLogger("headlight.server")

# Extra connections, which wait for the head of a health check.
EXTRA = 16
# A connection that has just come, or has just been answered, is not idle yet.
_IDLE_SECONDS = 1.0
# Files that the process has open without any connection, with some to spare.
_OWN_FILES = 40
# Connections that the kernel may hand over at once, before any of them can be closed.
MOST_BACKLOG = 2048
_MOST_CONNECTIONS = 4096
_FEWEST = 16
_ENDLESS = 2**30


class Connections:
    """All open connections."""

    def __init__(self, most: int, metrics: Metrics) -> None:
        self.most = most
        self._metrics = metrics
        self._open: set[ClientTransport] = set()
        self._idle: OrderedDict[ClientTransport, float] = OrderedDict()
        self._extra: OrderedDict[ClientTransport, None] = OrderedDict()
        self._is_full = False
        self._lines = LogThrottle()

    def enter(self, connection: ClientTransport, now: float) -> bool:
        """Takes a new connection; returns whether it is an extra one, beyond the limit."""
        is_extra = len(self._open) >= self.most and not self._close_longest_idle(now)
        if is_extra:
            self._note_full(now)
            if len(self._extra) >= EXTRA:
                self._close(next(iter(self._extra)))
            self._extra[connection] = None
        else:
            self._open.add(connection)
        self._show()
        return is_extra

    def leave(self, connection: ClientTransport) -> None:
        """Forgets a connection that is closed."""
        self._forget(connection)
        if self._is_full and len(self._open) < self.most * 0.9:
            self._is_full = False
            logger.info(
                "there is room for connections again",
                extra={"open": len(self._open), "limit": self.most},
            )

    def rest(self, connection: ClientTransport, now: float) -> None:
        """Notes that a connection waits for its next request."""
        self._idle[connection] = now
        self._idle.move_to_end(connection)

    def wake(self, connection: ClientTransport) -> None:
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
        for _ in range(EXTRA):
            connection, since = next(iter(self._idle.items()), (None, now))
            if connection is None or now - since < _IDLE_SECONDS:
                return False
            if connection in self._open and connection.can_close():
                self._note_full(now)
                self._close(connection)
                return True
            self.rest(connection, now)  # an answer is still on its way
        return False

    def _close(self, connection: ClientTransport) -> None:
        self._metrics.connections_closed.inc()
        self._forget(connection)
        connection.abort()

    def _forget(self, connection: ClientTransport) -> None:
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
    free = _ENDLESS if files < 0 else files - _OWN_FILES - EXTRA
    backlog = min(MOST_BACKLOG, max(_FEWEST, free // 4))
    most = free - backlog
    connections = min(_MOST_CONNECTIONS, most) if wanted == "auto" else wanted
    if connections > most or connections < 1:
        needed = max(_FEWEST, 0 if wanted == "auto" else wanted)
        raise ValueError(
            f"{needed} connections do not fit into {files} open files: raise the limit "
            f"(ulimit -n) to {2 * needed + _OWN_FILES + EXTRA + _FEWEST} or more"
            + ("" if wanted == "auto" else f", or lower this to {max(most, 0)} or less")
        )
    return Capacity(connections, backlog, files)
