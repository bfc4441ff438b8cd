"""Limits the bytes of large answers that are being made or wait to be sent.

A large answer reserves its bytes before it is computed, and releases them when its last byte has
left the process: a slow client leaves its answer in memory. Small answers reserve nothing.
"""

from collections.abc import Callable
from typing import Protocol

from prometheus_client import Gauge
from starlette.types import Scope

from service.errors import OverloadedError, Refusal

# Answers up to this size reserve nothing: every transport may hold as much anyway.
SMALL_BYTES = 65_536
# When there may be room: most clients read a large answer within seconds.
_RETRY_SECONDS = 5.0
#: where the scope of a request holds the connection that sends its answer
SENDER = "headlight.sender"


class Sender(Protocol):
    """The side of a connection that sends answers."""

    @property
    def is_holding(self) -> bool:
        """Whether a large answer is not sent yet."""

    def hold(self, reservation: "Reservation") -> None:
        """Keeps the reservation of an answer until it is sent."""

    def call_when_lost(self, call: Callable[[], object] | None) -> None:
        """Calls once when the client has left, or now if it has; None removes the call."""


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
        sender: Sender | None = scope.get(SENDER)
        if answer <= SMALL_BYTES or sender is None:
            return None
        fault = None
        if sender.is_holding:
            fault = (
                "The last large answer on this connection has not been read to its end: read it "
                "first, or use another connection."
            )
        elif self._reserved + making > self.most:
            fault = (
                f"The answer takes up to {making} bytes, and large answers that are not read yet "
                f"take {self._reserved} of {self.most} bytes: try again later, or ask for fewer "
                "layers or heads."
            )
        if fault is not None:
            raise OverloadedError(fault, refusal=Refusal.SENDING, retry_after=_RETRY_SECONDS)
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
