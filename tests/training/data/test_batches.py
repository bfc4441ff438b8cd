"""The order of an epoch."""

from hypothesis import given
from hypothesis import strategies as st

from tests.builders import MAX_LENGTH
from training.data.batches import batches_by_length, make_batches

LENGTHS = st.lists(st.integers(1, 50), min_size=1, max_size=300)


@given(LENGTHS, st.integers(1, 9), st.integers(0, 3), st.integers(0, 3))
def test_every_text_comes_once_and_always_in_the_same_order(
    lengths: list[int], batch_size: int, seed: int, epoch: int
) -> None:
    batches = make_batches(lengths, batch_size=batch_size, seed=seed, epoch=epoch)
    assert sorted(place for batch in batches for place in batch) == list(range(len(lengths)))
    assert all(1 <= len(batch) <= batch_size for batch in batches)
    assert batches == make_batches(lengths, batch_size=batch_size, seed=seed, epoch=epoch)
    # The steps of a run are counted before it begins.
    first = make_batches(lengths, batch_size=batch_size, seed=seed, epoch=0)
    assert len(batches) == len(first)


@given(rows=st.integers(40, 200), seed=st.integers(0, 1000), epoch=st.integers(0, 1000))
def test_epochs_and_seeds_differ(rows: int, seed: int, epoch: int) -> None:
    lengths = [1 + place % 7 for place in range(rows)]
    one, *others = (
        {frozenset(batch) for batch in make_batches(lengths, batch_size=4, seed=each, epoch=at)}
        for each, at in ((seed, epoch), (seed + 1, epoch), (seed, epoch + 1))
    )
    assert one not in others


def test_the_order_is_the_same_on_every_machine() -> None:
    lengths = [5, 1, 4, 2, 3, 9, 8]
    assert make_batches(lengths, batch_size=3, seed=0, epoch=0) == [[2, 0, 6], [1, 3, 4], [5]]


def test_a_batch_holds_like_lengths() -> None:
    lengths = list(range(1, 101)) * 5
    batches = make_batches(lengths, batch_size=10, seed=0, epoch=0)
    padded = sum(max(lengths[place] for place in batch) * len(batch) for batch in batches)
    assert padded < 1.05 * sum(lengths)
    longest = [max(lengths[place] for place in batch) for batch in batches]
    assert longest != sorted(longest)


def test_the_longest_texts_come_first() -> None:
    batches = batches_by_length([2, 9, 4, 4, 1, 3], max_batch_tokens=8)
    assert list(batches) == [[1], [2, 3], [5, 0], [4]]


@given(
    lengths=st.lists(st.integers(1, MAX_LENGTH), max_size=50), max_batch_tokens=st.integers(1, 200)
)
def test_batches_hold_every_text_once_and_keep_to_the_budget(
    lengths: list[int], max_batch_tokens: int
) -> None:
    batches = list(batches_by_length(lengths, max_batch_tokens=max_batch_tokens))
    assert sorted(index for batch in batches for index in batch) == list(range(len(lengths)))
    for batch in batches:
        longest = max(lengths[index] for index in batch)
        assert len(batch) == 1 or len(batch) * longest <= max_batch_tokens
