"""Decides which of the waiting texts go through the network next.

- Texts of like length share a batch, so that little of it is padding.
- Requests share the network as if each had its own. A text is due when the network would have
  ended with it, had it served all waiting requests at once, a token at a time (fair queueing:
  Demers, Keshav and Shenker 1989). So a request of hundreds of texts does not hold up one of a
  single text, and a stream of short texts does not starve a long one.
- Within a request, and among equals, who came first goes first.
- Where time gets short, who has the least of it left goes first, whatever its length.

Texts of like length wait in a bucket, which has two orders: who is due first, and who is most
urgent. A line, the texts of one request, stands once in each order. Taking a text by one order
leaves the other as it is. What has become wrong there is put right when it comes first, and thrown
out when it is more than half. So every step costs the logarithm of the lines on average, and what
has gone takes no more room than what waits.
"""

import heapq
import math
from collections.abc import Hashable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Generic, NamedTuple, TypeVar

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


class Waiting(NamedTuple, Generic[Item]):
    """One text.

    Args:
        due: when it is its turn, on the scale of the schedule.
        number: by which the older of two that are due together goes first; none has it twice.
        tokens: of the text.
        item: whatever it is to those who wait.
    """

    due: float
    number: int
    tokens: int
    item: Item


@dataclass(slots=True, eq=False)
class Line(Generic[Item]):
    """The texts of one request in a bucket.

    Args:
        texts: the one that goes first stands last, where a list gives it up at no cost.
        urgent_at: from when on they go before others, by the clock of the schedule.
    """

    texts: list[Waiting[Item]]
    urgent_at: float

    @property
    def first(self) -> Waiting[Item]:
        """The one that goes first."""
        return self.texts[-1]


_Order = list[tuple[float, int, Line[Item]]]


class Bucket(Generic[Item]):
    """Lines of texts; as false as an empty list when none waits."""

    def __init__(self) -> None:
        self._by_due: _Order[Item] = []
        self._by_urgency: _Order[Item] = []
        self._lines = 0

    def __bool__(self) -> bool:
        """Whether any text waits."""
        return self._lines > 0

    def add(self, texts: Sequence[Waiting[Item]], urgent_at: float) -> Line[Item]:
        """Lets the texts of a request wait.

        Args:
            texts: at least one, in the order in which they are due.
            urgent_at: from when on they go before others.

        Returns:
            Their line, to drop it.
        """
        line = Line(list(reversed(texts)), urgent_at)
        heapq.heappush(self._by_due, (line.first.due, line.first.number, line))
        heapq.heappush(self._by_urgency, (urgent_at, line.first.number, line))
        self._lines += 1
        return line

    def first(self, now: float) -> Line[Item] | None:
        """The line that is most urgent, or else that of the text due first; None if none waits.

        Args:
            now: the time.
        """
        return self.most_urgent(now) or self._due_first()

    def most_urgent(self, now: float) -> Line[Item] | None:
        """The line that is most urgent; None if none is.

        Args:
            now: the time.
        """
        while self._by_urgency and self._by_urgency[0][0] <= now:
            line = self._by_urgency[0][2]
            if line.texts:
                return line
            heapq.heappop(self._by_urgency)
        return None

    def take(self, line: Line[Item]) -> Waiting[Item]:
        """Takes the first text of a line."""
        text = line.texts.pop()
        if not line.texts:
            self._end_one()
        return text

    def drop(self, line: Line[Item]) -> None:
        """Forgets what is left of a line; without effect at its end."""
        if line.texts:
            line.texts.clear()
            self._end_one()

    def _due_first(self) -> Line[Item] | None:
        while self._by_due:
            _, number, line = self._by_due[0]
            if not line.texts:
                heapq.heappop(self._by_due)
            elif number != line.first.number:
                heapq.heapreplace(self._by_due, (line.first.due, line.first.number, line))
            else:
                return line
        return None

    def _end_one(self) -> None:
        self._lines -= 1
        self._by_due = self._swept(self._by_due)
        self._by_urgency = self._swept(self._by_urgency)

    def _swept(self, order: _Order[Item]) -> _Order[Item]:
        """Without lines that have ended, once these are more than the others."""
        if len(order) <= 2 * self._lines:
            return order
        kept = [place for place in order if place[2].texts]
        heapq.heapify(kept)
        return kept


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
