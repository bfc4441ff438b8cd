"""Which of the waiting texts go through the network next: fair to every request, little padding.

Texts of like length share a batch. Requests share the network as if each had its own: a text
is due when the network would have ended with it, had it served all waiting requests at once, a
token at a time (fair queueing: Demers, Keshav and Shenker 1989). So a request of hundreds of texts
does not hold up one of a single text, a stream of short texts does not starve a long one, and
within a request, and among equals, who came first goes first. Where so much waits that time gets
short, who has the least of it left goes first, whatever its length, and whatever else is due.
"""

import math
from collections.abc import Hashable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar

from service.inference.bucket import Bucket, Line, Waiting

Item = TypeVar("Item")

# Lengths within a ninth of each other count as alike.
_BUCKETS_PER_DOUBLING = 6
# What a pass costs beyond its tokens, in tokens: so much padding is worth saving one.
_PASS_TOKENS = 48
_PADDING_SHARE = 0.5
# How much of its length counts against a text: 1 would be fair by the letter and make long texts
# wait in proportion, 0 would be first come, first served.
_LENGTH_COUNTS = 0.5
# A kind of texts, and their length on a logarithmic scale.
_Key = tuple[Hashable, int]


@dataclass(slots=True, eq=False)
class Turn:
    """The place of one request in the schedule.

    Args:
        waiting_texts: of the request, not yet taken; none once nobody waits for the answer.
        waiting_tokens: of these texts.
        lines: where they stand.
    """

    waiting_texts: int = 0
    waiting_tokens: int = 0
    lines: dict[_Key, Line[Any]] = field(default_factory=dict)


class Schedule(Generic[Item]):
    """Texts that wait. Not to be used from two threads at once.

    Args:
        max_batch_tokens: `longest * count` of a batch stays within it; a longer text goes alone.
    """

    def __init__(self, max_batch_tokens: int) -> None:
        self._max_batch_tokens = max_batch_tokens
        self._buckets: dict[_Key, Bucket[tuple[Turn, Item]]] = {}
        self._time = 0.0  # tokens that each waiting request would have been given so far
        self._numbers = 0
        self._turns = 0
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
        texts: dict[_Key, list[Waiting[tuple[Turn, Item]]]] = {}
        due = self._time
        for item, tokens in items:
            due += _LENGTH_COUNTS * tokens
            text = Waiting(due, self._numbers, tokens, (turn, item))
            texts.setdefault((kind, _length(tokens)), []).append(text)
            self._numbers += 1
        for key, alike in texts.items():
            bucket = self._buckets.setdefault(key, Bucket())
            turn.lines[key] = bucket.add(alike, urgent_at)
        self._turns += 1
        self.tokens += turn.waiting_tokens
        return turn

    def drop(self, turn: Turn) -> None:
        """Forgets what is left of a request; without effect the second time, and at its end."""
        if not turn.waiting_texts:
            return
        self._turns -= 1
        self.tokens -= turn.waiting_tokens
        turn.waiting_texts = turn.waiting_tokens = 0
        for key, line in turn.lines.items():
            if line.texts:
                self._buckets[key].drop(line)
        self._forget_empty(turn.lines)

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
        texts = list(self._fill(first, limit, longest, now))
        self._time += sum(text.tokens for text in texts) / max(self._turns, 1)
        for text in texts:
            self._leave(text)
        self._forget_empty(list(self._buckets))
        if not self.tokens:
            self._time = 0.0
        return [text.item[1] for text in texts]

    def _first(self, longest: float, now: float) -> _Key | None:
        """The bucket of the text that is most urgent, or else due first."""
        first = None
        best = (math.inf, math.inf, 0)
        for key, bucket in self._buckets.items():
            line = bucket.first(now)
            if line is None or line.first.tokens > longest:
                continue
            urgency = line.urgent_at if line.urgent_at <= now else math.inf
            order = (urgency, line.first.due, line.first.number)
            if first is None or order < best:
                first, best = key, order
        return first

    def _fill(
        self, first: _Key, limit: int, longest_allowed: float, now: float
    ) -> Iterator[Waiting[tuple[Turn, Item]]]:
        """Takes from the first bucket, and from its neighbours while that saves work.

        What is urgent goes before what is not, even if that is more alike.
        """
        kind, length = first
        alike = sorted(
            (key for key in self._buckets if key[0] == kind), key=lambda key: abs(key[1] - length)
        )
        buckets = [self._buckets[key] for key in alike]
        urgent = [(bucket, bucket.most_urgent) for bucket in buckets]
        count = tokens = longest = 0
        for bucket, look in urgent + [(bucket, bucket.first) for bucket in buckets]:
            while (line := look(now)) is not None:
                text = line.first
                most = max(longest, text.tokens)
                padded = most * (count + 1)
                padding = padded - tokens - text.tokens
                if most > longest_allowed or (count and padded > limit):
                    break
                if padding > max(_PASS_TOKENS, _PADDING_SHARE * padded):
                    break
                yield bucket.take(line)
                count, tokens, longest = count + 1, tokens + text.tokens, most

    def _leave(self, text: Waiting[tuple[Turn, Item]]) -> None:
        turn, _ = text.item
        turn.waiting_texts -= 1
        turn.waiting_tokens -= text.tokens
        self.tokens -= text.tokens
        if not turn.waiting_texts:
            self._turns -= 1

    def _forget_empty(self, keys: Iterable[_Key]) -> None:
        """Forgets buckets: with a kind for each request, those left behind would fill memory."""
        for key in keys:
            if key in self._buckets and not self._buckets[key]:
                del self._buckets[key]


def _length(tokens: int) -> int:
    return round(_BUCKETS_PER_DOUBLING * math.log2(max(tokens, 1)))
