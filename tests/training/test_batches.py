"""The order of an epoch."""

from hypothesis import given
from hypothesis import strategies as st

from training.batches import make_batches


@given(
    st.lists(st.integers(1, 50), min_size=1, max_size=300),
    st.integers(1, 9),
    st.integers(0, 3),
    st.integers(0, 3),
)
def test_every_text_comes_once_and_always_in_the_same_order(
    lengths: list[int], batch_size: int, seed: int, epoch: int
) -> None:
    batches = make_batches(lengths, batch_size=batch_size, seed=seed, epoch=epoch)
    assert sorted(place for batch in batches for place in batch) == list(range(len(lengths)))
    assert max(map(len, batches)) <= batch_size
    assert batches == make_batches(lengths, batch_size=batch_size, seed=seed, epoch=epoch)


def test_epochs_and_seeds_differ() -> None:
    lengths = [1 + place % 7 for place in range(100)]
    orders = [
        make_batches(lengths, batch_size=10, seed=seed, epoch=epoch)
        for seed, epoch in ((0, 0), (0, 1), (1, 0))
    ]
    assert orders[0] != orders[1]
    assert orders[0] != orders[2]


def test_a_batch_holds_like_lengths() -> None:
    lengths = list(range(1, 101)) * 5
    batches = make_batches(lengths, batch_size=10, seed=0, epoch=0)
    padded = sum(max(lengths[place] for place in batch) * len(batch) for batch in batches)
    assert padded < 1.05 * sum(lengths)
