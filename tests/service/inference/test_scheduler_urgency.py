"""When time gets short: who has the least of it left goes first, whatever else is due.

Between clients, one batch of urgent texts is followed by one of another client.
"""

import math
from typing import NamedTuple

from hypothesis import given
from hypothesis import strategies as st

from service.inference.scheduler import Schedule


class Text(NamedTuple):
    """A text that can be told from all others."""

    request: int
    place: int
    tokens: int
    kind: str
    urgent_at: int


def test_what_is_urgent_goes_before_younger_texts_that_are_more_alike() -> None:
    schedule: Schedule[str] = Schedule(100)
    schedule.add([("old", 20), ("old", 24), ("old", 16)], urgent_at=20.0, client="one")
    for _ in range(10):
        schedule.add([("young", 20)], urgent_at=40.0, client="one")

    assert schedule.take(now=20.0) == ["old", "old", "old", "young"]


def test_a_client_whose_request_is_late_holds_up_no_other_for_more_than_a_batch() -> None:
    schedule: Schedule[str] = Schedule(100)
    schedule.add([("late", 20)] * 15, urgent_at=20.0, client="one")
    for _ in range(10):
        schedule.add([("polite", 20)], urgent_at=40.0, client="two")

    assert schedule.take(now=30.0) == ["late"] * 5
    assert "polite" in schedule.take(now=30.0)
    assert schedule.take(now=30.0).count("late") == 5
    assert "polite" in schedule.take(now=30.0)


@given(
    st.lists(
        st.tuples(
            st.lists(st.sampled_from([1, 12, 20, 24, 50, 90]), min_size=1, max_size=6),
            st.sampled_from(["text", "asked"]),
            st.integers(0, 30),
            st.sampled_from(["stays", "stays", "leaves", "one goes"]),
        ),
        max_size=20,
    ),
    st.integers(1, 300),
)
def test_no_batch_passes_over_what_is_more_urgent(
    requests: list[tuple[list[int], str, int, str]], budget: int
) -> None:
    schedule: Schedule[Text] = Schedule(budget)
    waiting: set[Text] = set()

    def take(now: int) -> bool:
        batch = schedule.take(now=float(now))
        waiting.difference_update(batch)
        _check_urgency(batch, waiting, now)
        _check_padding([text.tokens for text in batch], budget)
        return bool(batch)

    for now, (lengths, kind, patience, fate) in enumerate(requests):
        texts = [
            Text(now, place, count, kind, now + patience) for place, count in enumerate(lengths)
        ]
        flow = schedule.add(
            [(text, text.tokens) for text in texts],
            kind=kind,
            urgent_at=now + patience,
            client="one",
        )
        waiting.update(texts)
        if fate == "leaves":
            schedule.drop(flow)
            waiting.difference_update(texts)
        elif fate == "one goes":
            take(now)
    now = len(requests)
    while take(now):
        now += 1
    assert not waiting


def _check_urgency(batch: list[Text], left: set[Text], now: int) -> None:
    """The most urgent of all is in it, and what is in it is so before what is left like it."""
    urgent = [text.urgent_at for text in left if text.urgent_at <= now]
    if urgent:
        assert min(text.urgent_at for text in batch) <= min(urgent)
    for text in batch:
        like = [
            other.urgent_at
            for other in left
            if (other.kind, other.tokens) == (text.kind, text.tokens) and other.urgent_at <= now
        ]
        assert text.urgent_at <= min(like, default=math.inf)


def _check_padding(lengths: list[int], budget: int) -> None:
    """A pass of unlike lengths has as much padding as one pass less is worth, or half."""
    padded = max(lengths, default=0) * len(lengths)
    assert len(lengths) <= 1 or padded <= budget
    assert padded - sum(lengths) <= max(48, padded / 2)
