"""Limits the bytes of large answers that are being made or wait to be sent.

A client that reads slowly leaves its answer in the memory of the service. So a large answer takes
its room before anything is computed, and gives it back when its last byte has left the process.
What does not fit is refused. Small answers take no room and are never refused.
"""

from collections.abc import Callable
from typing import Protocol

from prometheus_client import Counter, Gauge
from starlette.types import Scope

from service.errors import OverloadedError, Refusal

# Answers up to this size take no room: every transport may hold as much anyway.
SMALL_BYTES = 65_536
# When the room may be free: most clients read a large answer within seconds.
_RETRY_SECONDS = 5.0
_KEY = "headlight.sender"


class Sender(Protocol):
    """The side of a connection that sends answers."""

    @property
    def is_holding(self) -> bool:
        """Whether a large answer has room and is not sent yet."""

    def hold(self, room: "Room") -> None:
        """Keeps the room of an answer until it is sent."""

    def tell_when_lost(self, call: Callable[[], object] | None) -> None:
        """Calls once when the client has left, at once if it has; None: nobody any more."""


class SendingLimit:
    """The room that all large answers share; see the module.

    Args:
        most: bytes in all.
        waiting: shows the bytes that are taken.
        refused: counts answers that did not fit.
    """

    def __init__(self, most: int, waiting: Gauge, refused: Counter) -> None:
        self.most = most
        self._taken = 0
        self._waiting = waiting
        self._refused = refused

    def reserve(self, scope: Scope, *, answer: int, making: int) -> "Room | None":
        """Takes room for the answer to a request.

        Args:
            scope: of the request; its connection keeps the room until the answer is sent.
            answer: bytes of the finished answer, at most.
            making: bytes that are taken while it is made, at most.

        Returns:
            The room, which `Room.shrink` makes smaller once the size is known; None for a small
            answer.

        Raises:
            OverloadedError: it does not fit, or the connection has not read its last large answer.
        """
        if answer <= SMALL_BYTES:
            return None
        sender: Sender | None = scope.get(_KEY)
        fault = None
        if sender is not None and sender.is_holding:
            fault = (
                "A large answer on this connection has not been read to its end: read it first, "
                "or ask on another connection."
            )
        elif self._taken + making > self.most:
            fault = (
                f"The answer takes up to {making} bytes, and large answers that are not read yet "
                f"take {self._taken} of {self.most} bytes: try again later, or ask for fewer "
                "layers or heads."
            )
        if fault is not None:
            self._refused.inc()
            raise OverloadedError(fault, refusal=Refusal.SENDING, retry_after=_RETRY_SECONDS)
        room = Room(self, making)
        if sender is not None:
            sender.hold(room)
        return room

    def take(self, size: int) -> None:
        """Takes room, or gives some back if `size` is negative."""
        self._taken += size
        self._waiting.set(self._taken)


class Room:
    """The room of one answer.

    Args:
        limit: of all answers.
        size: in bytes.
    """

    def __init__(self, limit: SendingLimit, size: int) -> None:
        self._limit = limit
        self._size = size
        limit.take(size)

    def shrink(self, size: int) -> None:
        """Gives back what the finished answer does not take.

        Args:
            size: of the answer, in bytes.
        """
        if size < self._size:
            self._limit.take(size - self._size)
            self._size = size

    def release(self) -> None:
        """Gives all back."""
        self.shrink(0)


def sender_of(scope: Scope) -> Sender | None:
    """Returns the connection that sends the answer to a request, if the server has told it."""
    return scope.get(_KEY)


def name_sender(scope: Scope, sender: Sender) -> None:
    """Notes in a request which connection sends its answer."""
    scope[_KEY] = sender
