"""Decides which of the waiting texts go through the network next.

- Texts of similar length share a batch, so that little of it is padding.
- Clients share the network by weighted fair queueing (Demers, Keshav and Shenker 1989). Each
  request is a flow. The flows of one client share the weight of one. The virtual finish time of a
  text is when it would end if the network served all flows at once, in proportion to their weights.
  The text with the earliest one goes first. So a request of hundreds of texts does not hold up a
  single text, a hundred requests of one client count as one, and a stream of short texts does not
  starve a long one.
- Within a request, and at equal finish times, the older text goes first.
- Urgent texts go before all others, the most urgent first, whatever their length. But after a batch
  of urgent texts, another client whose text is not urgent goes first. So a client whose large
  request is late holds up nobody for more than a batch.

Texts of similar length wait in one bucket. It holds a queue for each flow, and two heaps of these
queues: by the finish time of the first text, and by when the queue becomes urgent. Taking a text by
one heap leaves the other stale. A stale entry is corrected when it comes first, and ended queues
are removed when they fill more than half of a heap. So a step costs the logarithm of the number of
queues on average, and ended queues take no more room than waiting ones.
"""

import heapq
import math
from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Generic, NamedTuple, TypeVar

Item = TypeVar("Item")

# Lengths that differ by less than a ninth are similar.
_BUCKETS_PER_DOUBLING = 6
# The fixed cost of a pass, in tokens: this much padding is cheaper than one more pass.
_PASS_TOKENS = 48
_PADDING_SHARE = 0.5
# The weight of a text's length in its finish time, for a client with one request. With 1, long
# texts wait in proportion to their length, as exact fairness wants; 0 is first come, first served.
_LENGTH_WEIGHT = 0.5
# A kind of texts, and their length on a logarithmic scale.
_Key = tuple[Hashable, int]


@dataclass(slots=True, eq=False)
class Flow:
    """The texts of one request, those of them that wait, and its queue in each bucket."""

    client: Hashable
    cost_per_token: float
    waiting_texts: int
    waiting_tokens: int
    queues: "dict[_Key, FlowQueue[Any]]" = field(default_factory=dict)


class QueuedText(NamedTuple, Generic[Item]):
    """One text that waits; `number`, its order of arrival, decides between equal finish times."""

    finish: float
    number: int
    tokens: int
    flow: Flow
    item: Item


@dataclass(slots=True, eq=False)
class FlowQueue(Generic[Item]):
    """The texts of one flow in a bucket; the first one to go is last, where `pop` is cheap."""

    texts: list[QueuedText[Item]]
    urgent_at: float

    @property
    def first(self) -> QueuedText[Item]:
        """The text that goes first."""
        return self.texts[-1]


_Heap = list[tuple[float, int, FlowQueue[Item]]]


class Bucket(Generic[Item]):
    """Queues of texts of similar length; false when no text waits."""

    def __init__(self) -> None:
        self._by_finish: _Heap[Item] = []
        self._by_urgency: _Heap[Item] = []
        self._waiting_queues = 0

    def __bool__(self) -> bool:
        """Whether a text waits."""
        return self._waiting_queues > 0

    def add(self, texts: Sequence[QueuedText[Item]], urgent_at: float) -> FlowQueue[Item]:
        """Queues texts of one flow, in the order of their finish times; returns their queue."""
        queue = FlowQueue(list(reversed(texts)), urgent_at)
        heapq.heappush(self._by_finish, (queue.first.finish, queue.first.number, queue))
        heapq.heappush(self._by_urgency, (urgent_at, queue.first.number, queue))
        self._waiting_queues += 1
        return queue

    def first(self, now: float) -> FlowQueue[Item] | None:
        """Returns the most urgent queue, else the one with the earliest finish time, else None."""
        return self.most_urgent(now) or self._earliest_finish()

    def most_urgent(self, now: float) -> FlowQueue[Item] | None:
        """Returns the queue that has been urgent for longest; None if none is urgent."""
        while self._by_urgency and self._by_urgency[0][0] <= now:
            queue = self._by_urgency[0][2]
            if queue.texts:
                return queue
            heapq.heappop(self._by_urgency)
        return None

    def take(self, queue: FlowQueue[Item]) -> QueuedText[Item]:
        """Takes the first text of a queue."""
        text = queue.texts.pop()
        if not queue.texts:
            self._note_end()
        return text

    def drop(self, queue: FlowQueue[Item]) -> None:
        """Removes the texts of a queue, if there are any left."""
        if queue.texts:
            queue.texts.clear()
            self._note_end()

    def _earliest_finish(self) -> FlowQueue[Item] | None:
        while self._by_finish:
            _, number, queue = self._by_finish[0]
            if not queue.texts:
                heapq.heappop(self._by_finish)
            elif number != queue.first.number:
                heapq.heapreplace(self._by_finish, (queue.first.finish, queue.first.number, queue))
            else:
                return queue
        return None

    def _note_end(self) -> None:
        self._waiting_queues -= 1
        self._by_finish = self._without_ended(self._by_finish)
        self._by_urgency = self._without_ended(self._by_urgency)

    def _without_ended(self, heap: _Heap[Item]) -> _Heap[Item]:
        """Removes the queues that have ended, if they fill more than half of a heap."""
        if len(heap) <= 2 * self._waiting_queues:
            return heap
        kept = [entry for entry in heap if entry[2].texts]
        heapq.heapify(kept)
        return kept


class Schedule(Generic[Item]):
    """The texts that wait; one thread at a time may use it.

    A batch has at most `max_batch_tokens` of `longest * count`; a longer text goes by itself.
    """

    def __init__(self, max_batch_tokens: int) -> None:
        self._max_batch_tokens = max_batch_tokens
        self._buckets: dict[_Key, Bucket[Item]] = {}
        self._virtual_time = 0.0  # cost served to each waiting client so far
        self._next_number = 0
        self._flows: Counter[Hashable] = Counter()  # waiting ones of each client
        self._urgent_flow: Flow | None = None  # that the last batch began with, if it was urgent
        self.tokens = 0

    def add(
        self,
        items: Sequence[tuple[Item, int]],
        *,
        kind: Hashable = None,
        urgent_at: float = math.inf,
        client: Hashable = None,
        cost_per_token: float = 1.0,
    ) -> Flow:
        """Queues the texts of a request, each with its tokens, and returns their flow.

        Args:
            items: in the order in which they go if all else is equal.
            kind: only texts of one kind share a batch.
            urgent_at: when they become urgent, by the clock of `take`.
            client: each client has the same share. None: a client that sends no other request.
            cost_per_token: in any unit that all requests share.
        """
        client = object() if client is None else client
        flow = Flow(client, cost_per_token, len(items), sum(tokens for _, tokens in items))
        texts: dict[_Key, list[QueuedText[Item]]] = {}
        finish = self._virtual_time
        self._flows[client] += 1
        flows = self._flows[client]  # each has this part of its client's share
        weight = cost_per_token * (_LENGTH_WEIGHT if flows == 1 else flows)
        for item, tokens in items:
            finish += weight * tokens
            text = QueuedText(finish, self._next_number, tokens, flow, item)
            texts.setdefault((kind, _length_class(tokens)), []).append(text)
            self._next_number += 1
        for key, similar in texts.items():
            flow.queues[key] = self._buckets.setdefault(key, Bucket()).add(similar, urgent_at)
        self.tokens += flow.waiting_tokens
        return flow

    def drop(self, flow: Flow) -> None:
        """Removes the waiting texts of a request, if there are any left."""
        if not flow.waiting_texts:
            return
        self._end(flow)
        self.tokens -= flow.waiting_tokens
        flow.waiting_texts = flow.waiting_tokens = 0
        for key, queue in flow.queues.items():
            if queue.texts:
                self._buckets[key].drop(queue)
        self._remove_empty_buckets(flow.queues)

    def take(
        self,
        most_tokens: float = math.inf,
        *,
        now: float = -math.inf,
        kinds: Callable[[Hashable], bool] = lambda _: True,
    ) -> list[Item]:
        """Takes the texts of the next batch, always with the one that goes first.

        Args:
            most_tokens: a smaller limit than `max_batch_tokens`, for this batch.
            now: the time.
            kinds: whether texts of a kind may be taken.
        """
        now = self._after_urgent(now, kinds)
        key = self._first_bucket(now, kinds)
        if key is None:
            return []
        limit = min(self._max_batch_tokens, most_tokens)
        urgent = self._buckets[key].most_urgent(now)
        self._urgent_flow = None if urgent is None else urgent.first.flow
        texts = list(self._take_similar(key, limit, now))
        served = sum(text.tokens * text.flow.cost_per_token for text in texts)
        self._virtual_time += served / len(self._flows)
        for _, _, tokens, flow, _ in texts:
            flow.waiting_texts -= 1
            flow.waiting_tokens -= tokens
            self.tokens -= tokens
            if not flow.waiting_texts:
                self._end(flow)
        self._remove_empty_buckets(list(self._buckets))
        if not self.tokens:
            self._virtual_time = 0.0
        return [text.item for text in texts]

    def waits(self, kinds: Callable[[Hashable], bool]) -> bool:
        """Whether a text waits whose kind satisfies `kinds`."""
        return any(kinds(kind) for kind, _ in self._buckets)

    def _end(self, flow: Flow) -> None:
        self._flows[flow.client] -= 1
        if not self._flows[flow.client]:
            del self._flows[flow.client]

    def _after_urgent(self, now: float, kinds: Callable[[Hashable], bool]) -> float:
        """Returns the time by which urgency counts for the next batch; minus infinity: not."""
        if self._urgent_flow is None:
            return now
        key = self._first_bucket(-math.inf, kinds)
        queue = None if key is None else self._buckets[key].first(-math.inf)
        if queue is None or queue.urgent_at <= now:
            return now
        is_other = queue.first.flow.client != self._urgent_flow.client
        return -math.inf if is_other else now

    def _first_bucket(self, now: float, kinds: Callable[[Hashable], bool]) -> _Key | None:
        """Finds the bucket of the text that goes first."""
        order: dict[_Key, tuple[float, float, int]] = {}
        for key, bucket in self._buckets.items():
            queue = bucket.first(now) if kinds(key[0]) else None
            if queue is not None:
                urgency = queue.urgent_at if queue.urgent_at <= now else math.inf
                order[key] = (urgency, queue.first.finish, queue.first.number)
        return min(order, key=order.__getitem__, default=None)

    def _take_similar(self, key: _Key, limit: float, now: float) -> Iterator[QueuedText[Item]]:
        """Takes texts of one kind, urgent ones first, while that saves work."""
        kind, length = key
        same_kind = sorted(
            (key for key in self._buckets if key[0] == kind), key=lambda key: abs(key[1] - length)
        )
        buckets = [self._buckets[key] for key in same_kind]
        urgent = [(bucket, bucket.most_urgent) for bucket in buckets]
        count = tokens = longest = 0
        for bucket, find_queue in urgent + [(bucket, bucket.first) for bucket in buckets]:
            while (queue := find_queue(now)) is not None:
                text = queue.first
                new_longest = max(longest, text.tokens)
                padded = new_longest * (count + 1)
                padding = padded - tokens - text.tokens
                if count and padded > limit:
                    break
                if padding > max(_PASS_TOKENS, _PADDING_SHARE * padded):
                    break
                yield bucket.take(queue)
                count, tokens, longest = count + 1, tokens + text.tokens, new_longest

    def _remove_empty_buckets(self, keys: Iterable[_Key]) -> None:
        """Removes empty buckets; with a kind for each request, they would fill the memory."""
        for key in keys:
            if key in self._buckets and not self._buckets[key]:
                del self._buckets[key]


def _length_class(tokens: int) -> int:
    return round(_BUCKETS_PER_DOUBLING * math.log2(max(tokens, 1)))
