"""The way to one client, who may be slow, may still be sending, or may be gone already.

Three things differ from the transport of the event loop. What is written to a client that is gone
is dropped: uvloop raises where a connection was reset and a piece of an answer is still to be
written, but between the reset and the call that tells of it there is always an answer on its way,
so for a service it is no error. A client that is still sending when its last answer is written
would lose that answer, because a connection that is closed with bytes unread is reset: so only the
way out is closed, and what still comes is read and thrown away for a while. And a client that has
stopped reading does not keep its answer in the memory for ever.
"""

import asyncio
import sys
from collections.abc import Callable
from typing import Any

# Until the way in is closed too, behind a last answer. With what nginx gives, a client on a slow
# line would have 30 seconds; those who send that much too much can do with less.
_LINGER_SECONDS = 10.0
_LINGER_BYTES = 16_777_216
# How long not one byte of an answer that waits may get through.
_STALL_SECONDS = 30.0
_STALL_SECONDS_AT_END = 5.0

if sys.platform == "linux":
    import fcntl
    import termios

    def _unacknowledged(transport: asyncio.Transport) -> int:
        # Of a slow reader the kernel holds megabytes, and asks for more only when a third of them
        # is through: by the transport's own buffer alone, it would seem to stand still till then.
        descriptor = transport.get_extra_info("socket").fileno()
        try:
            count = fcntl.ioctl(descriptor, termios.TIOCOUTQ, bytes(4))
        except OSError:  # a kernel that only looks like Linux, as of a sandbox
            return 0
        return int.from_bytes(count, sys.byteorder)
else:

    def _unacknowledged(transport: asyncio.Transport) -> int:
        del transport  # elsewhere nothing tells
        return 0


class ClientTransport(asyncio.Transport):
    """A transport to a client that is not trusted to be there, to read, or to wait; see the module.

    Args:
        transport: of the event loop, which it passes everything on to.
        loop: that runs it.
        is_sending: whether the client is known to have more to say than was read of it.
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
        self._watch: asyncio.TimerHandle | None = None

    def write(self, data: bytes | bytearray | memoryview) -> None:
        """Writes to a client that is still there."""
        if self.is_closing():
            return
        self._written += len(data)
        self._transport.write(data)
        if self._watch is None:
            self._watch_writing()

    def close(self) -> None:
        """Closes behind a last answer; what the client is still sending is read for a while."""
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
        """Counts what came behind the last answer, and ends when it is too much.

        Args:
            size: of it, in bytes.
        """
        self._discarded += size
        if self._discarded > _LINGER_BYTES:
            self.end()

    def end(self) -> None:
        """Closes behind what was written, without waiting for the client."""
        self._transport.close()

    def abort(self) -> None:
        """Closes at once, and drops what was not sent yet."""
        self._transport.abort()

    def hurry(self, seconds: float) -> None:
        """The process ends: waits for nobody, and for what is on its way only so long.

        Args:
            seconds: after which the connection is there no more.
        """
        self._in_haste = True
        if self._lingering:
            self.end()
        self.forget()
        self._ending = self._loop.call_later(seconds, self.abort)
        if self._transport.get_write_buffer_size():
            self._watch_writing()

    def forget(self) -> None:
        """Lets nothing happen later that was to happen."""
        for timer in (self._ending, self._watch):
            if timer is not None:
                timer.cancel()
        self._ending = self._watch = None

    def is_closing(self) -> bool:
        """Whether nothing more will be written."""
        return self._lingering or self._transport.is_closing()

    def pause_reading(self) -> None:
        """Stops reading, as the body of a request waits to be taken."""
        self._paused = True
        self._read_or_not()

    def resume_reading(self) -> None:
        """Reads again, unless too much waits to be parsed."""
        self._paused = False
        self._read_or_not()

    def set_full(self, *, full: bool) -> None:
        """Stops reading, or reads again unless it is paused.

        Args:
            full: whether too much waits to be parsed.
        """
        if full != self._full:
            self._full = full
            self._read_or_not()

    def get_extra_info(self, name: str, default: Any = None) -> Any:  # noqa: ANN401
        """What is known of the connection, such as its addresses."""
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
        if self._count_delivered() == self._delivered:
            self.abort()
        else:
            self._watch_writing()

    def _count_delivered(self) -> int:
        waiting = self._transport.get_write_buffer_size()
        return self._written - waiting - _unacknowledged(self._transport)
