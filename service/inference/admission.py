"""Who may wait: as many tokens as the queue holds, and as can be computed in time.

The rule is the same for one sentence and for hundreds: it counts tokens.
"""

import math
from typing import NoReturn

from service.errors import OverloadedError

# Of the time that a request has, this share may go by in the queue.
_SHARE_OF_TIME = 0.7
_HORIZON_SECONDS = 2.0
_MOST_TIMES_SLOWER = 4.0
_WEIGHT_OF_LAST = 0.05


class Throughput:
    """Tokens a second, of the stretches of time at whose both ends something waited.

    A network that is asked now and then looks slow, since its passes are small and its cores
    idle: what it can do shows only while a queue stands. The last seconds count most. A stretch
    that is far longer than was to be expected is of a process that was stopped for a while, and
    counts for less; of one that has become slower there will be others.
    """

    def __init__(self) -> None:
        self._since: float | None = None
        self._tokens = 0.0
        self._seconds = 0.0

    @property
    def tokens_per_second(self) -> float | None:
        """The rate; None as long as nothing ever waited."""
        return self._tokens / self._seconds if self._seconds else None

    def note(self, now: float, *, tokens: int, waiting: bool) -> None:
        """Tells that a pass ended.

        Args:
            now: of a clock that does not go back, in seconds.
            tokens: that went through.
            waiting: whether something waits still.
        """
        if self._since is not None and waiting:
            seconds = min(now - self._since, self._longest(tokens))
            kept = math.exp(-seconds / _HORIZON_SECONDS)
            self._tokens = self._tokens * kept + tokens
            self._seconds = self._seconds * kept + seconds
        self._since = now if waiting else None

    def _longest(self, tokens: int) -> float:
        """How many seconds of a stretch count."""
        rate = self.tokens_per_second
        return max(_MOST_TIMES_SLOWER * tokens / rate, _HORIZON_SECONDS) if rate else math.inf


class Admission:
    """Decides whether a request may wait.

    Args:
        max_queue_tokens: that may wait.
    """

    def __init__(self, max_queue_tokens: int) -> None:
        self.throughput = Throughput()
        self._max_queue_tokens = max_queue_tokens
        self._usual_tokens = 1.0

    def check(self, tokens: int, *, waiting: int, computing: int, seconds: float) -> None:
        """Lets a request in, or refuses it.

        Args:
            tokens: of the request.
            waiting: tokens that wait already.
            computing: tokens that are in a pass.
            seconds: until its answer is of no use any more.

        Raises:
            OverloadedError: the queue has no room for it, or it would wait for too long; with
                the time after which it would have been let in.
        """
        self._usual_tokens += _WEIGHT_OF_LAST * (tokens - self._usual_tokens)
        room, limit = self._room(waiting, computing, seconds)
        if waiting + tokens > room:
            self._refuse(
                f"{waiting} tokens are waiting, the request has {tokens}, and {limit}",
                waiting + tokens - room,
            )

    def check_room(self, *, waiting: int, computing: int, seconds: float, ahead: int = 0) -> None:
        """The same before the request has been read: refuses where a usual one would be.

        Args:
            waiting: tokens that wait already.
            computing: tokens that are in a pass.
            seconds: until the answer is of no use any more.
            ahead: requests before it that were not read yet either, each taken for a usual one.

        Raises:
            OverloadedError: there is no room for a request of the usual size.
        """
        waiting += round(ahead * self._usual_tokens)
        room, limit = self._room(waiting, computing, seconds)
        if waiting and waiting + self._usual_tokens > room:
            missing = waiting + self._usual_tokens - room
            self._refuse(f"{waiting} tokens are waiting, and {limit}", missing)

    def _room(self, waiting: int, computing: int, seconds: float) -> tuple[float, str]:
        """How many tokens may wait, and why."""
        rate = self.throughput.tokens_per_second
        # Where nothing waits, nobody knows better than to try.
        if rate is not None and waiting:
            # What is in a pass goes first, and may have only begun.
            in_time = max(rate * _SHARE_OF_TIME * max(seconds, 0.0) - computing, 0.0)
            if in_time < self._max_queue_tokens:
                return in_time, f"{in_time:.0f} can be computed in the time that it has"
        return self._max_queue_tokens, f"the queue holds {self._max_queue_tokens}"

    def _refuse(self, reason: str, missing: float) -> NoReturn:
        raise OverloadedError(
            f"{reason}: come back later, or try another replica.",
            retry_after=missing / (self.throughput.tokens_per_second or math.inf),
        )
