"""Holds the texts that wait in a simulated replica, and forms batches as the service does.

The oldest text goes first. Texts of similar length join it, while they fit into the tokens of a
pass and little of it is padding. The service also knows clients, urgency and heavy requests. With
requests of one sentence they change the order little, so the model leaves them out.
"""

import math
from collections import deque
from collections.abc import Sequence

# As in service/inference: tests hold that the numbers are the same.
BUCKETS_PER_DOUBLING = 6
PASS_TOKENS = 48
PADDING_SHARE = 0.5


class Waiting:
    """The texts that wait, in buckets of similar length; false when there are none.

    Args:
        lengths: tokens of each text, by its number.
    """

    def __init__(self, lengths: Sequence[int]) -> None:
        self._lengths = lengths
        self._buckets: dict[int, deque[int]] = {}
        self.tokens = 0

    def __bool__(self) -> bool:
        """Tells whether a text waits."""
        return self.tokens > 0

    def add(self, number: int) -> None:
        """Adds a text.

        Args:
            number: of the text, larger than those before it.
        """
        length = self._lengths[number]
        bucket = round(BUCKETS_PER_DOUBLING * math.log2(length))
        self._buckets.setdefault(bucket, deque()).append(number)
        self.tokens += length

    def take(self, limit: int) -> list[int]:
        """Takes the texts of the next batch; at least one text must wait.

        Args:
            limit: tokens of the batch, padding counted; a longer text goes alone.
        """
        first = min(self._buckets, key=lambda bucket: self._buckets[bucket][0])
        batch: list[int] = []
        tokens = longest = 0
        for bucket in sorted(self._buckets, key=lambda bucket: abs(bucket - first)):
            waiting = self._buckets[bucket]
            while waiting:
                length = self._lengths[waiting[0]]
                padded = max(longest, length) * (len(batch) + 1)
                padding = padded - tokens - length
                too_much = padding > max(PASS_TOKENS, PADDING_SHARE * padded)
                if batch and (padded > limit or too_much):
                    break
                batch.append(waiting.popleft())
                tokens, longest = tokens + length, max(longest, length)
            if not waiting:
                del self._buckets[bucket]
        self.tokens -= tokens
        return batch
