"""Limits what each lane may take, so that long texts leave a core to short ones."""

import math
from collections.abc import Iterable

# With fewer tokens, sharing work among cores costs more than it gains.
WORTH_SHARING_TOKENS = 100
_FEWEST_TOKENS_PER_THREAD = 8
# While a short text arrives at least this often, in seconds, one lane is reserved for them.
SHORT_COME_WITHIN = 0.05
# A text of more tokens is long: it keeps a core busy for too long for short texts to wait.
_LONG_TOKENS = 128


class Lanes:
    """The work of all lanes; one thread at a time may use it.

    Args:
        count: the number of cores that lanes share; a GPU is one.
        worth_sharing: the fewest tokens for which a pass that is alone uses several threads.
    """

    def __init__(self, count: int, *, worth_sharing: int = WORTH_SHARING_TOKENS) -> None:
        self.count = count
        self._worth_sharing = worth_sharing
        self._busy = 0
        self._busy_with_long = 0
        self._last_short_arrival = -math.inf

    def note_arrival(self, lengths: Iterable[int], now: float) -> None:
        """Notes that texts arrived.

        Args:
            lengths: tokens of each text.
            now: the time.
        """
        if any(length <= _LONG_TOKENS for length in lengths):
            self._last_short_arrival = now

    def longest(self, now: float) -> float:
        """Returns the length of the longest text that the next batch may have, in tokens.

        Args:
            now: the time.
        """
        is_last = self.count > 1 and self._busy_with_long >= self.count - 1
        if is_last and now - self._last_short_arrival < SHORT_COME_WITHIN:
            return _LONG_TOKENS
        return math.inf

    def begin(self, tokens: int, count: int, *, is_all: bool) -> tuple[int, bool]:
        """Notes that a lane took a batch.

        Args:
            tokens: tokens of the batch.
            count: texts of the batch.
            is_all: whether no other text waits.

        Returns:
            The number of threads for the batch, and whether it is long, for `end`.
        """
        is_long = tokens > _LONG_TOKENS * count
        self._busy += 1
        self._busy_with_long += is_long
        alone = self._busy == 1 and is_all and tokens >= self._worth_sharing
        return min(self.count, tokens // _FEWEST_TOKENS_PER_THREAD) if alone else 1, is_long

    def end(self, *, is_long: bool) -> None:
        """Notes that a batch ended."""
        self._busy -= 1
        self._busy_with_long -= is_long
