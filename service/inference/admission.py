"""Admits requests while the queue has room and can compute their tokens in time.

The rule counts tokens, so it is the same for one sentence and for hundreds.
"""

import math
from typing import NoReturn

from service.errors import OverloadedError

# The share of a request's time that it may spend in the queue.
_SHARE_OF_TIME = 0.7
_HORIZON_SECONDS = 2.0
_MOST_TIMES_SLOWER = 4.0
_WEIGHT_OF_LAST = 0.05


class Throughput:
    """The rate of the network in tokens a second, measured while requests wait.

    A network that is rarely asked looks slow, because its passes are small and its cores idle. So
    only intervals between two passes count at whose ends requests wait. The last seconds have
    the most weight. An interval that is far longer than expected means that the process was
    stopped, and counts for less. If the process has really become slower, more such intervals
    follow.
    """

    def __init__(self) -> None:
        self._since: float | None = None
        self._tokens = 0.0
        self._seconds = 0.0

    @property
    def tokens_per_second(self) -> float | None:
        """The rate; None if no request has ever waited."""
        return self._tokens / self._seconds if self._seconds else None

    def note(self, now: float, *, tokens: int, waiting: bool) -> None:
        """Notes that a pass ended.

        Args:
            now: the time of a monotonic clock, in seconds.
            tokens: tokens of the pass.
            waiting: whether requests still wait.
        """
        if self._since is not None and waiting:
            seconds = min(now - self._since, self._longest(tokens))
            kept = math.exp(-seconds / _HORIZON_SECONDS)
            self._tokens = self._tokens * kept + tokens
            self._seconds = self._seconds * kept + seconds
        self._since = now if waiting else None

    def _longest(self, tokens: int) -> float:
        """Returns how many seconds of an interval count at most."""
        rate = self.tokens_per_second
        return max(_MOST_TIMES_SLOWER * tokens / rate, _HORIZON_SECONDS) if rate else math.inf


class Admission:
    """The rule that decides whether a request may wait.

    Args:
        max_queue_tokens: tokens that may wait.
    """

    def __init__(self, max_queue_tokens: int) -> None:
        self.throughput = Throughput()
        self._max_queue_tokens = max_queue_tokens
        self._average_tokens = 1.0

    def check(self, tokens: int, *, waiting: int, computing: int, seconds: float) -> None:
        """Admits a request or refuses it.

        Args:
            tokens: tokens of the request.
            waiting: tokens that wait already.
            computing: tokens of running passes.
            seconds: time until the deadline of the request.

        Raises:
            OverloadedError: the queue has no room for it, or it would wait for too long. The
                error says after which time there would be room.
        """
        self._average_tokens += _WEIGHT_OF_LAST * (tokens - self._average_tokens)
        room, limit = self._room(waiting, computing, seconds)
        if waiting + tokens > room:
            self._refuse(
                f"{waiting} tokens are waiting, the request has {tokens}, and {limit}",
                waiting + tokens - room,
            )

    def check_room(self, *, waiting: int, computing: int, seconds: float, ahead: int = 0) -> None:
        """Refuses a request before it is read, if one of average size would be refused.

        Args:
            waiting: tokens that wait already.
            computing: tokens of running passes.
            seconds: time until the deadline of the request.
            ahead: requests before it that are not read yet; each counts as one of average size.

        Raises:
            OverloadedError: there is no room for a request of average size.
        """
        waiting += round(ahead * self._average_tokens)
        room, limit = self._room(waiting, computing, seconds)
        if waiting and waiting + self._average_tokens > room:
            missing = waiting + self._average_tokens - room
            self._refuse(f"{waiting} tokens are waiting, and {limit}", missing)

    def _room(self, waiting: int, computing: int, seconds: float) -> tuple[float, str]:
        """Returns how many tokens may wait, and the reason."""
        rate = self.throughput.tokens_per_second
        # With an empty queue, every request may try.
        if rate is not None and waiting:
            # The running passes end first, and may have only begun.
            in_time = max(rate * _SHARE_OF_TIME * max(seconds, 0.0) - computing, 0.0)
            if in_time < self._max_queue_tokens:
                return in_time, f"{in_time:.0f} can be computed in the time that it has"
        return self._max_queue_tokens, f"the queue holds {self._max_queue_tokens}"

    def _refuse(self, reason: str, missing: float) -> NoReturn:
        raise OverloadedError(
            f"{reason}: come back later, or try another replica.",
            retry_after=missing / (self.throughput.tokens_per_second or math.inf),
        )
