"""Texts of like length that wait, in two orders: who is due first, and who is most urgent.

What stands in these orders is not a text but a line, the texts of one request, and once in each:
the next of a request is neither due nor in a hurry before the last. Taking a text by one order
leaves the other as it is; what has become wrong there is put right when it comes first, and thrown
out when it is more than half. So every step costs the logarithm of the lines, on the average of
all of them, and what has gone takes no more room than what waits.
"""

import heapq
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Generic, NamedTuple, TypeVar

Item = TypeVar("Item")


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
