"""Who goes next: everybody once, within the budget, and nobody at the cost of others."""

import math
import weakref
from collections.abc import Iterator
from functools import partial
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from service.metrics import EXPLICIT, FUSED, GRADIENT
from service.queue.scheduler import Item, Request, Schedule, Weight
from tests.service.queueing import request_of

lengths = st.integers(1, 40)
paths = st.sampled_from([FUSED, EXPLICIT])
requests = st.lists(
    st.tuples(st.lists(lengths, min_size=1, max_size=8), paths, st.booleans()), max_size=20
)


def add(schedule: Schedule, name: object, *lengths: int, **options: Any) -> Request:  # noqa: ANN401
    """Queues a request whose items have a name as their input."""
    request, items = request_of(*lengths, **{"client": None, "input": name, **options})
    schedule.add(request, items)
    return request


def take(schedule: Schedule, **options: Any) -> list[object]:  # noqa: ANN401
    return [item.input for item in schedule.take(**options)]


def batches(schedule: Schedule) -> Iterator[list[Item]]:
    """All that is left, batch by batch."""
    while batch := schedule.take():
        yield batch


@given(requests, st.integers(1, 1000), st.integers(0, 5), st.booleans())
def test_each_text_goes_once_within_the_budget_unless_it_is_dropped(
    plans: list[tuple[list[int], str, bool]], budget: int, early: int, mixes: bool
) -> None:
    schedule = Schedule(budget, mixes_lengths=mixes)
    taken: list[list[Item]] = []
    added = []
    for number, (tokens, path, _) in enumerate(plans):
        added.append(add(schedule, number, *tokens, path=path))
        if number == early:
            taken.append(schedule.take())
    before = {item for batch in taken for item in batch}
    for request, (_, _, drops) in zip(added, plans, strict=True):
        if drops:
            assert schedule.drop(request) == request.tokens - sum(
                item.tokens for item in before if item.request is request
            )
            assert schedule.drop(request) == 0
    kept = [request for request, (_, _, drops) in zip(added, plans, strict=True) if not drops]
    assert schedule.tokens == sum(request.waiting_tokens for request in kept)
    taken += batches(schedule)

    went = [(item.request, item.index) for batch in taken for item in batch]
    assert len(went) == len(set(went))
    assert {each for each in went if each[0] in kept} == {
        (request, index) for request in kept for index in range(request.missing)
    }
    assert (schedule.tokens, schedule.take(), +schedule.waiting) == (0, [], {})
    for batch in taken:
        sizes = [item.tokens for item in batch]
        longest = next(size for size in (16, 32, 64) if max(sizes) <= size) if mixes else max(sizes)
        assert len(batch) <= 1 or longest * len(batch) <= budget
        assert len({item.request.path for item in batch}) <= 1


def test_a_long_text_is_not_starved_by_short_ones() -> None:
    schedule = Schedule(512)
    add(schedule, "long", 500)
    taken: list[object] = []
    for _ in range(20):
        for _ in range(8):  # more than one batch takes, so that short ones always wait
            add(schedule, "short", 100)
        taken += take(schedule)
    assert "long" in taken


@given(st.lists(st.tuples(st.sampled_from(Weight), lengths), min_size=1, max_size=30))
def test_weights_can_be_passed_over(texts: list[tuple[Weight, int]]) -> None:
    schedule = Schedule(100)
    for each in texts:
        add(schedule, each, each[1], weight=each[0])

    def is_light(weight: Weight) -> bool:
        return weight is Weight.LIGHT

    chosen: list[object] = []
    while schedule.waits(is_light):
        chosen += take(schedule, may_take=is_light)
    assert take(schedule, may_take=is_light) == []
    rest = [item.input for batch in batches(schedule) for item in batch]
    assert sorted(chosen) == sorted(each for each in texts if each[0] is Weight.LIGHT)  # type: ignore[type-var]
    assert sorted(rest) == sorted(each for each in texts if each[0] > Weight.LIGHT)  # type: ignore[type-var]


def test_gradients_of_two_requests_do_not_share_a_pass() -> None:
    schedule = Schedule(100)
    for name in "ab":
        add(schedule, name, 10, 10, path=GRADIENT)
    assert [take(schedule), take(schedule)] == [["a", "a"], ["b", "b"]]


@pytest.mark.parametrize("mixes", [False, True])
def test_each_client_has_the_same_share_however_many_requests_it_sends(mixes: bool) -> None:
    schedule = Schedule(100, mixes_lengths=mixes)
    served = dict.fromkeys(("one", "many"), 0)
    for name, count in (("one", 4), ("many", 64)):
        for _ in range(count):
            add(schedule, name, 20, client=name)
    for _ in range(400):
        for item in schedule.take():
            name = str(item.input)
            served[name] += 1
            add(schedule, name, 20, client=name)  # each asks again when it is answered
    assert schedule.waiting == {"one": 80, "many": 1280}
    assert served["one"] == pytest.approx(served["many"], rel=0.15)


def test_texts_of_any_length_go_together_in_their_order_while_there_is_room() -> None:
    schedule = Schedule(40_000, mixes_lengths=True)
    add(schedule, "many", *[9] * 3000, client="a", weight=Weight.HEAVY)
    add(schedule, "one", 300, client="b")
    assert take(schedule) == ["many"] * 33 + ["one"] + ["many"] * 44
    add(schedule, "urgent", 40, client="c", urgent_at=1.0)
    assert take(schedule, now=1.0) == ["urgent"] + ["many"] * 624
    assert [len(batch) for batch in batches(schedule)] == [1024, 1024, 251]


def test_texts_that_are_explained_have_a_limit_of_their_own() -> None:
    schedule = Schedule(1000, explained_tokens=40)
    add(schedule, "maps", *[20] * 5, path=EXPLICIT)
    add(schedule, "labels", *[20] * 5)
    assert sorted(map(len, batches(schedule))) == [1, 2, 2, 5]


def test_what_costs_more_goes_later() -> None:
    schedule = Schedule(20)
    add(schedule, "dear", 20, 20, client="a", cost=5.0)
    add(schedule, "cheap", *[20] * 10, client="b")
    assert [take(schedule)[0] for _ in range(6)] == ["cheap"] * 4 + ["dear", "cheap"]


def test_requests_that_come_and_go_leave_nothing_behind() -> None:
    schedule = Schedule(100)
    add(schedule, 0, 30, 30, 30, urgent_at=1.0)
    for number in range(1000):
        schedule.drop(add(schedule, number, 30, 40, urgent_at=2.0))
        schedule.drop(add(schedule, number, 30, path=GRADIENT))
    (bucket,) = schedule._buckets.values()
    assert len(bucket._by_finish) + len(bucket._by_urgency) <= 4  # of one line, in two orders
    assert schedule.tokens == 90
    assert [len(batch) for batch in batches(schedule)] == [3]
    assert [schedule._buckets, schedule._requests, schedule.waiting] == [{}, {}, {}]


def test_nothing_is_kept_of_what_was_taken_or_dropped() -> None:
    class Answer:
        """Stands for megabytes."""

    schedule = Schedule(10)
    taken, dropped, waiting = Answer(), Answer(), Answer()
    gone = [weakref.ref(taken), weakref.ref(dropped)]
    add(schedule, waiting, *[10] * 4, urgent_at=1.0)  # stands before the others in both orders
    add(schedule, taken, 10, urgent_at=2.0)
    request = add(schedule, dropped, 10, urgent_at=2.0)
    assert [take(schedule), take(schedule)] == [[waiting], [taken]]
    schedule.drop(request)
    del taken, dropped
    assert [answer() for answer in gone] == [None, None]


def test_requests_share_the_network_as_long_as_none_is_urgent() -> None:
    schedule = Schedule(20)  # one text a pass
    take_next = partial(take, schedule, now=0.0)
    add(schedule, "a", *[20] * 4, urgent_at=1.0)
    add(schedule, "b", 20, urgent_at=2.0)
    order = take_next() + take_next()
    add(schedule, "c", 20, 20, 20, urgent_at=3.0)
    order += [name for batch in iter(take_next, []) for name in batch]
    # Each has been given 20 of its tokens when c comes, half of which count.
    assert order == ["a", "b", "a", "a", "c", "a", "c", "c"]


def test_a_client_whose_request_is_late_holds_up_no_other_for_more_than_a_batch() -> None:
    schedule = Schedule(100)
    add(schedule, "late", *[20] * 15, urgent_at=20.0, client="one")
    for _ in range(10):
        add(schedule, "polite", 20, urgent_at=40.0, client="two")
    assert take(schedule, now=30.0) == ["late"] * 5
    assert "polite" in take(schedule, now=30.0)
    assert take(schedule, now=30.0).count("late") == 5
    assert "polite" in take(schedule, now=30.0)


@given(
    st.lists(
        st.tuples(
            st.lists(st.sampled_from([1, 12, 20, 24, 50, 90]), min_size=1, max_size=6),
            paths,
            st.integers(0, 30),
            st.sampled_from(["stays", "stays", "leaves", "one goes"]),
        ),
        max_size=20,
    ),
    st.integers(1, 300),
    st.booleans(),
)
def test_no_batch_passes_over_what_is_more_urgent(
    requests: list[tuple[list[int], str, int, str]], budget: int, mixes: bool
) -> None:
    schedule = Schedule(budget, mixes_lengths=mixes)
    waiting: set[Item] = set()

    def take_at(now: int) -> bool:
        batch = schedule.take(now=float(now))
        waiting.difference_update(batch)
        _check_urgency(batch, waiting, now)
        if not mixes:
            _check_padding([item.tokens for item in batch], budget)
        return bool(batch)

    for now, (sizes, path, patience, fate) in enumerate(requests):
        options: dict[str, Any] = {"path": path, "urgent_at": now + patience, "client": "one"}
        request, items = request_of(*sizes, **options)
        schedule.add(request, items)
        waiting.update(items)
        if fate == "leaves":
            schedule.drop(request)
            waiting.difference_update(items)
        elif fate == "one goes":
            take_at(now)
    now = len(requests)
    while take_at(now):
        now += 1
    assert not waiting


def _check_urgency(batch: list[Item], left: set[Item], now: int) -> None:
    """The most urgent of all is in it, and what is in it is so before what is left like it."""
    urgent = [item for item in left if item.request.urgent_at <= now]
    if urgent:
        most = min(item.request.urgent_at for item in urgent)
        assert min(item.request.urgent_at for item in batch) <= most
    for item in batch:
        like = [
            other.request.urgent_at
            for other in urgent
            if (other.request.path, other.tokens) == (item.request.path, item.tokens)
        ]
        assert item.request.urgent_at <= min(like, default=math.inf)


def _check_padding(lengths: list[int], budget: int) -> None:
    """A pass of unlike lengths has as much padding as one pass less is worth, or half."""
    padded = max(lengths, default=0) * len(lengths)
    assert len(lengths) <= 1 or padded <= budget
    assert padded - sum(lengths) <= max(48, padded / 2)
