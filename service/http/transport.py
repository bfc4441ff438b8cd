"""Sends to clients that may be slow, still sending or gone, and limits connections and answers.

- It drops output for a client that has left; uvloop would raise.
- It reads on for a while after the last answer: a connection that is closed with unread bytes is
  reset, and a client that is still sending would lose its answer.
- It gives up a client that reads nothing, or too slowly, so that no answer stays in memory.
- A large answer reserves its bytes before it is computed, and releases them when its last byte has
  left the process. Small answers reserve nothing.
- Beyond the limit of connections, the one idle for longest is closed. If none is idle, the new one
  is an extra connection: only its health check is answered.
"""

import asyncio
import logging
import sys
from collections import OrderedDict
from collections.abc import Callable
from typing import Any

from prometheus_client import Gauge
from starlette.types import Scope

from service.errors import OverloadedError, Refusal
from service.logs import LogThrottle
from service.metrics import Metrics

logger = logging.getLogger("headlight.server")

# After the last answer, input is discarded for so long. nginx allows 30 seconds, for slow lines;
# a client that sends that much too much can do with less.
_LINGER_SECONDS = 10.0
_LINGER_BYTES = 16_777_216
# While an answer waits, the client's reading is looked at this often. The first time one byte is
# enough, so that a slow line has time for a small answer. After that it needs the rate.
_STALL_SECONDS = 30.0
_LEAST_RATE = 16_000  # bytes per second
_STALL_SECONDS_AT_END = 5.0

# Answers up to this size reserve nothing: every transport may hold as much anyway.
SMALL_BYTES = 65_536
# When there may be room: most clients read a large answer within seconds.
_RETRY_SECONDS = 5.0
# Extra connections, which wait for the head of a health check.
EXTRA = 16
# A connection that has just come, or has just been answered, is not idle yet.
_IDLE_SECONDS = 1.0
#: where the scope of a request holds the transport that sends its answer
SENDER = "headlight.sender"

if sys.platform == "linux":
    import fcntl
    import termios

    def _unacknowledged(transport: asyncio.Transport) -> int:
        # The kernel holds megabytes for a slow reader, and asks for more only when a third of them
        # is through. Until then the transport's own buffer seems to stand still.
        descriptor = transport.get_extra_info("socket").fileno()
        try:
            count = fcntl.ioctl(descriptor, termios.TIOCOUTQ, bytes(4))
        except OSError:  # a sandbox whose kernel only looks like Linux
            return 0
        return int.from_bytes(count, sys.byteorder)
else:

    def _unacknowledged(transport: asyncio.Transport) -> int:
        del transport  # other systems do not report it
        return 0


class ClientTransport(asyncio.Transport):
    """Does not trust the client to stay, to read or to wait; see the module.

    `is_sending` says whether the client is known to send more than was read so far.
    """

    def __init__(
        self,
        transport: asyncio.Transport,
        loop: asyncio.AbstractEventLoop,
        is_sending: Callable[[], bool],
    ) -> None:
        super().__init__()
        self._transport = transport
        self._loop = loop
        self._is_sending = is_sending
        self._paused = False
        self._full = False
        self._lingering = False
        self._discarded = 0
        self._in_haste = False
        self._ending: asyncio.TimerHandle | None = None
        self._written = 0
        self._delivered = 0
        self._is_fresh = True  # output began to wait since the last look at the reading
        self._reservation: Reservation | None = None
        self._is_made = False  # the answer that holds the reservation
        self._is_lost = False
        self._on_lost: Callable[[], object] | None = None
        self._watch: asyncio.TimerHandle | None = None

    def write(self, data: bytes | bytearray | memoryview) -> None:
        """Writes, unless the client has left."""
        if self.is_closing():
            return
        self._written += len(data)
        if not self._transport.get_write_buffer_size():
            self._is_fresh = True
        self._transport.write(data)
        if self._watch is None:
            self._watch_writing()

    def close(self) -> None:
        """Closes after the last answer; discards for a while what the client is still sending."""
        if self.is_closing():
            return
        if self._in_haste or not self._is_sending():
            self.end()
            return
        self._lingering = True
        try:
            self._transport.write_eof()
        except OSError:  # it was reset, and asyncio says so
            self.abort()
            return
        self._transport.resume_reading()
        self._ending = self._loop.call_later(_LINGER_SECONDS, self.end)

    def discard(self, size: int) -> None:
        """Counts bytes of input after the last answer; ends the connection if they are too many."""
        self._discarded += size
        if self._discarded > _LINGER_BYTES:
            self.end()

    def end(self) -> None:
        """Closes once the output is sent, without waiting for the client."""
        self._transport.close()

    def abort(self) -> None:
        """Closes at once, and drops output that is not sent yet."""
        self._transport.abort()

    def hurry(self, seconds: float) -> None:
        """Aborts the connection after `seconds`, because the process ends."""
        self._in_haste = True
        if self._lingering:
            self.end()
        self.forget()
        self._ending = self._loop.call_later(seconds, self.abort)
        if self._transport.get_write_buffer_size():
            self._watch_writing()

    def can_close(self) -> bool:
        """Whether nothing is lost if the connection closes now."""
        return not self._is_sending() and not self.get_write_buffer_size()

    @property
    def is_holding(self) -> bool:
        """Whether a large answer is not sent yet."""
        return self._reservation is not None

    def hold(self, reservation: "Reservation") -> None:
        """Keeps a reservation until `note_made` was called and the last byte is sent."""
        self._reservation, self._is_made = reservation, False

    def note_made(self) -> None:
        """Notes that the request is over: all of its answer is written, or there is none."""
        if self._reservation is None:
            return
        self._is_made = True
        if self._is_lost:
            self._release()
        if self._transport.is_closing():
            return  # else `note_lost` follows
        # Whatever is left of it keeps all of it in memory, so the last byte counts.
        self._transport.set_write_buffer_limits(high=0)
        self.note_sent()

    def note_sent(self) -> None:
        """Releases the reservation if nothing waits any more."""
        if (
            self._reservation is None
            or not self._is_made
            or self._transport.get_write_buffer_size()
        ):
            return
        self._release()
        if not self._transport.is_closing():
            self._transport.set_write_buffer_limits()

    def call_when_lost(self, call: Callable[[], object] | None) -> None:
        """Calls once when the client has left, or now if it has; None removes the call."""
        self._on_lost = call
        if self._is_lost and call is not None:
            call()

    def note_lost(self) -> None:
        """Cancels all timers, and releases the reservation unless the request goes on."""
        self.forget()
        self._is_lost = True
        self._is_sending = lambda: False  # lets go of the protocol, which holds this
        if self._on_lost is not None:
            self._on_lost()
        if self._is_made:
            self._release()

    def _release(self) -> None:
        if self._reservation is not None:
            self._reservation.release()
            self._reservation = None

    def forget(self) -> None:
        """Cancels all timers."""
        for timer in (self._ending, self._watch):
            if timer is not None:
                timer.cancel()
        self._ending = self._watch = None

    def is_closing(self) -> bool:
        """Whether no more output is taken."""
        return self._lingering or self._transport.is_closing()

    def get_write_buffer_size(self) -> int:
        """Bytes that wait in the process."""
        size: int = self._transport.get_write_buffer_size()
        return size

    def pause_reading(self) -> None:
        """Stops reading while a body waits for the application."""
        self._paused = True
        self._read_or_not()

    def resume_reading(self) -> None:
        """Reads again, unless too much input waits to be parsed."""
        self._paused = False
        self._read_or_not()

    def set_full(self, *, full: bool) -> None:
        """Stops reading while too much input waits to be parsed."""
        if full != self._full:
            self._full = full
            self._read_or_not()

    def get_extra_info(self, name: str, default: Any = None) -> Any:  # noqa: ANN401
        """Facts of the connection, such as its addresses."""
        return self._transport.get_extra_info(name, default)

    def _read_or_not(self) -> None:
        if self.is_closing():
            return
        if self._paused or self._full:
            self._transport.pause_reading()
        else:
            self._transport.resume_reading()

    def _watch_writing(self) -> None:
        seconds = _STALL_SECONDS_AT_END if self._in_haste else _STALL_SECONDS
        self._delivered = self._count_delivered()
        self._watch = self._loop.call_later(seconds, self._end_if_stalled)

    def _end_if_stalled(self) -> None:
        self._watch = None
        if self._transport.get_write_buffer_size() == 0:
            return
        delivered = self._count_delivered() - self._delivered
        is_lenient = self._in_haste or self._is_fresh
        self._is_fresh = False
        if delivered < (1 if is_lenient else _LEAST_RATE * _STALL_SECONDS):
            self.abort()
        else:
            self._watch_writing()

    def _count_delivered(self) -> int:
        waiting = self._transport.get_write_buffer_size()
        return self._written - waiting - _unacknowledged(self._transport)


class ResponseBudget:
    """The bytes that all large answers share, and a gauge that shows those that are reserved."""

    def __init__(self, most: int, waiting: Gauge) -> None:
        self.most = most
        self._reserved = 0
        self._waiting = waiting

    def reserve(self, scope: Scope, *, answer: int, making: int) -> "Reservation | None":
        """Reserves bytes for the answer to a request.

        Args:
            scope: of the request; its connection keeps the reservation until the answer is sent.
            answer: bytes of the finished answer, at most.
            making: bytes that making it takes, at most.

        Returns:
            The reservation, to shrink once the size is known; None for a small answer, or where
            no connection would release it.

        Raises:
            OverloadedError: it does not fit, or the connection has not read its last large answer.
        """
        sender: ClientTransport | None = scope.get(SENDER)
        if answer <= SMALL_BYTES or sender is None:
            return None
        reason = None
        if sender.is_holding:
            reason = (
                "The last large answer on this connection has not been read to its end: read it "
                "first, or use another connection."
            )
        elif self._reserved + making > self.most:
            reason = (
                f"The answer takes up to {making} bytes, and large answers that are not read yet "
                f"take {self._reserved} of {self.most} bytes: try again later, or ask for fewer "
                "layers or heads."
            )
        if reason is not None:
            raise OverloadedError(reason, refusal=Refusal.SENDING, retry_after=_RETRY_SECONDS)
        reservation = Reservation(self, making)
        sender.hold(reservation)
        return reservation

    def take(self, size: int) -> None:
        """Counts bytes as reserved; a negative size releases them."""
        self._reserved += size
        self._waiting.set(self._reserved)


class Reservation:
    """The bytes of one answer."""

    def __init__(self, budget: ResponseBudget, size: int) -> None:
        self._budget = budget
        self._size = size
        budget.take(size)

    def shrink(self, size: int) -> None:
        """Releases all but the bytes of the finished answer."""
        if size < self._size:
            self._budget.take(size - self._size)
            self._size = size

    def release(self) -> None:
        """Releases all bytes."""
        self.shrink(0)


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
