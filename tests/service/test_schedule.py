"""Who goes next: everybody once, within the budget, and nobody at the cost of others."""

from collections.abc import Iterator

from hypothesis import given
from hypothesis import strategies as st

from service.schedule import Schedule

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
    turns = []
    for request, (tokens, kind, _) in enumerate(plans):
        items = [((request, place), count) for place, count in enumerate(tokens)]
        turns.append(schedule.add(items, kind=kind))
        if request == early:
            taken.append(schedule.take())
    before = {item for batch in taken for item in batch}
    for turn, (_, _, drops) in zip(turns, plans, strict=True):
        if drops:
            schedule.drop(turn)
            schedule.drop(turn)
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


@given(st.lists(lengths, min_size=1, max_size=30))
def test_texts_of_one_length_go_in_the_order_of_their_coming(tokens: list[int]) -> None:
    schedule: Schedule[tuple[int, int]] = Schedule(100)
    for number, count in enumerate(tokens):
        schedule.add([((number, count), count)])

    order = [item for batch in batches(schedule) for item in batch]

    for count in set(tokens):
        of_this = [number for number, size in order if size == count]
        assert of_this == sorted(of_this)


def test_a_large_request_does_not_hold_up_a_small_one() -> None:
    schedule: Schedule[tuple[int, int]] = Schedule(100)
    schedule.add([((0, place), 20) for place in range(200)])
    schedule.take()
    schedule.add([((1, 0), 20)])

    waited = next(number for number, batch in enumerate(batches(schedule)) if (1, 0) in batch)

    assert waited <= 1


def test_a_long_text_is_not_starved_by_short_ones() -> None:
    schedule: Schedule[tuple[int, int]] = Schedule(512)
    schedule.add([((0, 0), 500)])
    for number in range(1, 1000):
        for place in range(8):  # more than one batch takes, so that short ones always wait
            schedule.add([((number, place), 100)])
        if (0, 0) in schedule.take():
            break

    assert number < 20


def test_a_large_request_is_not_starved_by_small_ones() -> None:
    schedule: Schedule[tuple[int, int]] = Schedule(100)
    schedule.add([((0, place), 20) for place in range(20)])
    left = 20
    for number in range(1, 1000):
        for place in range(6):
            schedule.add([((number, place), 20)])
        left -= sum(request == 0 for request, _ in schedule.take())
        if not left:
            break

    # Twenty batches of five would do it alone; it shares with ever more others.
    assert left == 0


def test_short_and_long_texts_do_not_share_a_batch() -> None:
    schedule: Schedule[str] = Schedule(1000)
    for name, count in (("long", 300), ("short", 10), ("short", 11), ("long", 290)):
        schedule.add([(name, count)])

    taken = [schedule.take(), schedule.take(), schedule.take()]

    assert sorted(taken) == [[], ["long", "long"], ["short", "short"]]


@given(st.lists(lengths, min_size=1, max_size=30), lengths)
def test_longer_texts_can_be_passed_over(tokens: list[int], longest: int) -> None:
    schedule: Schedule[int] = Schedule(100)
    for count in tokens:
        schedule.add([(count, count)])

    short: list[int] = []
    while batch := schedule.take(longest=longest):
        short += batch
    rest = [count for batch in iter(schedule.take, []) for count in batch]

    assert sorted(short) == sorted(count for count in tokens if count <= longest)
    assert sorted(rest) == sorted(count for count in tokens if count > longest)


def test_requests_that_come_and_go_leave_nothing_behind() -> None:
    schedule: Schedule[int] = Schedule(100)
    kept = schedule.add([(0, 30)] * 3)
    for number in range(20_000):
        schedule.drop(schedule.add([(number, 40)]))

    assert sum(len(entries) for entries in schedule._buckets.values()) < 5_000
    assert schedule.tokens == kept.waiting_tokens == 90
    assert [len(batch) for batch in iter(schedule.take, [])] == [3]


def test_who_has_waited_for_long_goes_first_whatever_its_length() -> None:
    schedule: Schedule[str] = Schedule(100)
    schedule.add([("long", 90)], urgent_at=20.0)
    schedule.add([("long, later", 90)], urgent_at=30.0)
    for _ in range(3):
        schedule.add([("short", 10)] * 10, urgent_at=40.0)

    assert set(schedule.take(now=19.0)) == {"short"}
    assert schedule.take(now=35.0) == ["long"]
    assert schedule.take(now=35.0) == ["long, later"]
    assert set(schedule.take(now=35.0)) == {"short"}
