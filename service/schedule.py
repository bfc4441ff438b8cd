"""Which of the waiting texts go through the network next: fair to every request, little padding.

Texts of like length share a batch. Requests share the network as if each had its own: a text
is due when the network would have ended with it, had it served all waiting requests at once, a
token at a time (fair queueing: Demers, Keshav and Shenker 1989). So a request of hundreds of texts
does not hold up one of a single text, a stream of short texts does not starve a long one, and
within a request, and among equals, who came first goes first. Where so much waits that time gets
short, who has the least of it left goes first, whatever its length.
"""

import heapq
import math
from collections.abc import Hashable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Generic, TypeVar

Item = TypeVar("Item")

# Lengths within a ninth of each other count as alike.
_BUCKETS_PER_DOUBLING = 6
# What a pass costs beyond its tokens, in tokens: so much padding is worth saving one.
_PASS_TOKENS = 48
_PADDING_SHARE = 0.5
# How much of its length counts against a text: 1 would be fair by the letter and make long texts
# wait in proportion, 0 would be first come, first served.
_LENGTH_COUNTS = 0.5
_MOST_DEAD = 1024
# A kind of texts, and their length on a logarithmic scale.
_Bucket = tuple[Hashable, int]


@dataclass(slots=True, eq=False)
class Turn:
    """The place of one request in the schedule.

    Args:
        waiting_texts: of the request, not yet taken.
        waiting_tokens: of these texts.
        dropped: True when nobody waits for the answer any more.
    """

    waiting_texts: int = 0
    waiting_tokens: int = 0
    dropped: bool = False


@dataclass(slots=True, order=True)
class _Entry(Generic[Item]):
    due: float
    number: int
    tokens: int = field(compare=False)
    urgent_at: float = field(compare=False)
    turn: Turn = field(compare=False)
    item: Item = field(compare=False)


class Schedule(Generic[Item]):
    """Texts that wait. Not to be used from two threads at once.

    Args:
        max_batch_tokens: `longest * count` of a batch stays within it; a longer text goes alone.
    """

    def __init__(self, max_batch_tokens: int) -> None:
        self._max_batch_tokens = max_batch_tokens
        self._buckets: dict[_Bucket, list[_Entry[Item]]] = {}
        self._time = 0.0  # tokens that each waiting request would have been given so far
        self._numbers = 0
        self._turns = 0
        self._dead = 0
        self.tokens = 0

    def add(
        self,
        items: Sequence[tuple[Item, int]],
        *,
        kind: Hashable = None,
        urgent_at: float = math.inf,
    ) -> Turn:
        """Lets the texts of a request wait.

        Args:
            items: each with its tokens, in the order in which they shall go if all else is equal.
            kind: only texts of one kind share a batch.
            urgent_at: from when on they go before all that are not urgent, by the clock of `take`.

        Returns:
            The place of the request, to drop it.
        """
        turn = Turn(len(items), sum(tokens for _, tokens in items))
        due = self._time
        for item, tokens in items:
            due += _LENGTH_COUNTS * tokens
            bucket = (kind, _bucket(tokens))
            entry = _Entry(due, self._numbers, tokens, urgent_at, turn, item)
            heapq.heappush(self._buckets.setdefault(bucket, []), entry)
            self._numbers += 1
        self._turns += 1
        self.tokens += turn.waiting_tokens
        return turn

    def drop(self, turn: Turn) -> None:
        """Forgets what is left of a request; without effect the second time, and at its end."""
        if turn.dropped:
            return
        turn.dropped = True
        if turn.waiting_texts:
            self._turns -= 1
            self.tokens -= turn.waiting_tokens
            self._dead += turn.waiting_texts
        if self._dead > _MOST_DEAD and self._dead > sum(map(len, self._buckets.values())) // 2:
            self._sweep()

    def take(
        self,
        most_tokens: int | None = None,
        *,
        longest: float = math.inf,
        now: float = -math.inf,
    ) -> list[Item]:
        """Takes the texts of the next batch; none if none waits.

        The one that is due first, or is most urgent, is always part of it.

        Args:
            most_tokens: a smaller limit than `max_batch_tokens`, for this batch.
            longest: texts of more tokens are passed over.
            now: the time.
        """
        limit = self._max_batch_tokens
        if most_tokens is not None:
            limit = min(limit, most_tokens)
        first = self._first(longest, now)
        if first is None:
            return []
        entries = list(self._fill(first, limit, longest))
        tokens = sum(entry.tokens for entry in entries)
        self._time += tokens / max(self._turns, 1)
        for entry in entries:
            self._leave(entry)
        if not self.tokens:
            self._time = 0.0
        return [entry.item for entry in entries]

    def _first(self, longest: float, now: float) -> _Bucket | None:
        """The bucket of the text that is most urgent, or else due first."""
        first = None
        best = (math.inf, math.inf, 0)
        for bucket in list(self._buckets):
            head = self._head(bucket)
            if head is None or head.tokens > longest:
                continue
            urgency = head.urgent_at if head.urgent_at <= now else math.inf
            order = (urgency, head.due, head.number)
            if first is None or order < best:
                first, best = bucket, order
        return first

    def _head(self, bucket: _Bucket) -> _Entry[Item] | None:
        """The first entry of a bucket that somebody still waits for."""
        entries = self._buckets.get(bucket)
        while entries:
            if not entries[0].turn.dropped:
                return entries[0]
            heapq.heappop(entries)
            self._dead -= 1
        self._buckets.pop(bucket, None)
        return None

    def _fill(self, first: _Bucket, limit: int, longest_allowed: float) -> Iterator[_Entry[Item]]:
        """Takes from the first bucket, and from its neighbours while that saves work."""
        entry = heapq.heappop(self._buckets[first])
        yield entry
        count, tokens, longest = 1, entry.tokens, entry.tokens
        kind, length = first
        alike = [bucket for bucket in self._buckets if bucket[0] == kind]
        for bucket in sorted(alike, key=lambda other: abs(other[1] - length)):
            while (head := self._head(bucket)) is not None:
                most = max(longest, head.tokens)
                padded = most * (count + 1)
                padding = padded - tokens - head.tokens
                if padded > limit or most > longest_allowed:
                    break
                if padding > max(_PASS_TOKENS, _PADDING_SHARE * padded):
                    break
                yield heapq.heappop(self._buckets[bucket])
                count, tokens, longest = count + 1, tokens + head.tokens, most

    def _leave(self, entry: _Entry[Item]) -> None:
        turn = entry.turn
        turn.waiting_texts -= 1
        turn.waiting_tokens -= entry.tokens
        self.tokens -= entry.tokens
        if not turn.waiting_texts:
            self._turns -= 1

    def _sweep(self) -> None:
        """Throws out what nobody waits for, so that requests that come and go fill no memory."""
        for bucket, entries in list(self._buckets.items()):
            kept = [entry for entry in entries if not entry.turn.dropped]
            heapq.heapify(kept)
            if kept:
                self._buckets[bucket] = kept
            else:
                del self._buckets[bucket]
        self._dead = 0


def _bucket(tokens: int) -> int:
    return round(_BUCKETS_PER_DOUBLING * math.log2(max(tokens, 1)))
