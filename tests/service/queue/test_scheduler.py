"""Who goes next: everybody once, within the budget, and nobody at the cost of others."""

import math
import weakref
from collections.abc import Iterator
from functools import partial
from typing import NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from service.queue.scheduler import Schedule

lengths = st.integers(1, 40)
requests = st.lists(
    st.tuples(
        st.lists(lengths, min_size=1, max_size=8), st.sampled_from(["text", "asked"]), st.booleans()
    ),
    max_size=20,
)


def batches(schedule: Schedule[tuple[int, int]]) -> Iterator[list[tuple[int, int]]]:
    """All that is left, batch by batch."""
    while batch := schedule.take():
        yield batch


@given(requests, st.integers(1, 100), st.integers(0, 5))
def test_each_text_goes_once_within_the_budget_unless_it_is_dropped(
    plans: list[tuple[list[int], str, bool]], budget: int, early: int
) -> None:
    schedule: Schedule[tuple[int, int]] = Schedule(budget)
    taken: list[list[tuple[int, int]]] = []
    flows = []
    for request, (tokens, kind, _) in enumerate(plans):
        items = [((request, place), count) for place, count in enumerate(tokens)]
        flows.append(schedule.add(items, kind=kind))
        if request == early:
            taken.append(schedule.take())
    before = {item for batch in taken for item in batch}
    for flow, (_, _, drops) in zip(flows, plans, strict=True):
        if drops:
            schedule.drop(flow)
            schedule.drop(flow)
    left = sum(
        count
        for request, (tokens, _, drops) in enumerate(plans)
        for place, count in enumerate(tokens)
        if not drops and (request, place) not in before
    )
    assert schedule.tokens == left
    taken += batches(schedule)

    went = [item for batch in taken for item in batch]
    assert len(went) == len(set(went))
    assert (
        set(went) - before
        == {
            (request, place)
            for request, (tokens, _, drops) in enumerate(plans)
            for place in range(len(tokens))
            if not drops
        }
        - before
    )
    assert (schedule.tokens, schedule.take()) == (0, [])
    for batch in taken:
        sizes = [plans[request][0][place] for request, place in batch]
        assert len(batch) == 1 or max(sizes, default=0) * len(batch) <= budget
        assert len({plans[request][1] for request, _ in batch}) == 1


def test_a_long_text_is_not_starved_by_short_ones() -> None:
    schedule: Schedule[tuple[int, int]] = Schedule(512)
    schedule.add([((0, 0), 500)])
    for number in range(1, 1000):
        for place in range(8):  # more than one batch takes, so that short ones always wait
            schedule.add([((number, place), 100)])
        if (0, 0) in schedule.take():
            break

    assert number < 20


@given(st.lists(st.tuples(st.sampled_from("ab"), lengths), min_size=1, max_size=30))
def test_kinds_can_be_passed_over(texts: list[tuple[str, int]]) -> None:
    schedule: Schedule[tuple[str, int]] = Schedule(100)
    for kind, count in texts:
        schedule.add([((kind, count), count)], kind=kind)

    chosen: list[tuple[str, int]] = []
    while schedule.waits(lambda kind: kind == "a"):
        chosen += schedule.take(kinds=lambda kind: kind == "a")
    assert schedule.take(kinds=lambda kind: kind == "a") == []
    rest = [text for batch in iter(schedule.take, []) for text in batch]

    assert sorted(chosen) == sorted(text for text in texts if text[0] == "a")
    assert sorted(rest) == sorted(text for text in texts if text[0] == "b")


def test_each_client_has_the_same_share_however_many_requests_it_sends() -> None:
    schedule: Schedule[str] = Schedule(100)
    served = dict.fromkeys(("one", "many"), 0)
    for _ in range(4):
        schedule.add([("one", 20)], client="one")
    for _ in range(64):
        schedule.add([("many", 20)], client="many")
    for _ in range(400):
        for name in schedule.take():
            served[name] += 1
            schedule.add([(name, 20)], client=name)  # each asks again when it is answered

    assert served["one"] == pytest.approx(served["many"], rel=0.15)


def test_what_costs_more_goes_later() -> None:
    schedule: Schedule[str] = Schedule(20)
    schedule.add([("dear", 20)] * 2, client="a", cost_per_token=5.0)
    schedule.add([("cheap", 20)] * 10, client="b")

    assert [schedule.take()[0] for _ in range(6)] == ["cheap"] * 4 + ["dear", "cheap"]


def test_requests_that_come_and_go_leave_nothing_behind() -> None:
    schedule: Schedule[int] = Schedule(100)
    kept = schedule.add([(0, 30)] * 3, urgent_at=1.0)
    for number in range(1000):
        schedule.drop(schedule.add([(number, 30), (number, 40)], urgent_at=2.0))
        schedule.drop(schedule.add([(number, 30)], kind=number))

    (bucket,) = schedule._buckets.values()
    assert len(bucket._by_finish) + len(bucket._by_urgency) <= 4  # of one line, in two orders
    assert schedule.tokens == kept.waiting_tokens == 90
    assert [len(batch) for batch in iter(schedule.take, [])] == [3]
    assert not schedule._buckets


def test_nothing_is_kept_of_what_was_taken_or_dropped() -> None:
    class Answer:
        """Stands for megabytes."""

    schedule: Schedule[Answer] = Schedule(10)
    taken, dropped, waiting = Answer(), Answer(), Answer()
    gone = [weakref.ref(taken), weakref.ref(dropped)]
    schedule.add([(waiting, 10)] * 4, urgent_at=1.0)  # stands before the others in both orders
    schedule.add([(taken, 10)], urgent_at=2.0)
    flow = schedule.add([(dropped, 10)], urgent_at=2.0)
    assert [schedule.take(), schedule.take()] == [[waiting], [taken]]
    schedule.drop(flow)
    del taken, dropped

    assert [answer() for answer in gone] == [None, None]


def test_requests_share_the_network_as_long_as_none_is_urgent() -> None:
    schedule: Schedule[str] = Schedule(20)  # one text a pass
    schedule.add([(f"a{place}", 20) for place in range(4)], urgent_at=1.0)
    schedule.add([("b", 20)], urgent_at=2.0)
    order = schedule.take(now=0.0) + schedule.take(now=0.0)
    schedule.add([(f"c{place}", 20) for place in range(3)], urgent_at=3.0)
    order += [name for batch in iter(partial(schedule.take, now=0.0), []) for name in batch]

    # Each has been given 20 of its tokens when c comes, half of which count.
    assert order == ["a0", "b", "a1", "a2", "c0", "a3", "c1", "c2"]


class Text(NamedTuple):
    """A text that can be told from all others."""

    request: int
    place: int
    tokens: int
    kind: str
    urgent_at: int


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
