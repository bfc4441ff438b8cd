"""Masks from lengths, from order, and the two joined."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from model import causal_mask, padding_mask
from model.errors import ConfigurationError
from model.network.masks import check_masked_rows, join_masks, mask_bias
from tests.matching import exactly


def join(padding: Tensor | None, pairs: Tensor | None, **sizes: int) -> Tensor | None:
    return join_masks(
        padding,
        pairs,
        batch_size=sizes.get("batch_size", 2),
        num_heads=sizes.get("num_heads", 3),
        query_length=sizes.get("query_length", 4),
        key_length=sizes.get("key_length", 5),
    )


@given(lengths=st.lists(st.integers(1, 9), min_size=1, max_size=5), extra=st.integers(0, 4))
def test_padding_begins_where_a_text_ends(lengths: list[int], extra: int) -> None:
    longest = max(lengths) + extra

    mask = padding_mask(torch.tensor(lengths), max_length=longest)

    assert mask.tolist() == [[place >= length for place in range(longest)] for length in lengths]


def test_the_longest_text_is_not_padded() -> None:
    mask = padding_mask(torch.tensor([1, 3], dtype=torch.int32))

    assert mask.tolist() == [[False, True, True], [False, False, False]]


@pytest.mark.parametrize(
    ("lengths", "max_length", "message"),
    [
        (torch.tensor([2, 0]), None, "lengths must be from 1 to 2, got 0 to 2"),
        (torch.tensor([2, 7]), 5, "lengths must be from 1 to 5, got 2 to 7"),
        (
            torch.tensor([2.0]),
            None,
            "lengths must be integers of shape [B], got torch.float32 of shape (1,)",
        ),
        (
            torch.tensor([[2]]),
            None,
            "lengths must be integers of shape [B], got torch.int64 of shape (1, 1)",
        ),
        (
            torch.tensor([], dtype=torch.int64),
            None,
            "lengths must be integers of shape [B], B at least 1, got shape (0,)",
        ),
    ],
)
def test_wrong_lengths_are_refused(lengths: Tensor, max_length: int | None, message: str) -> None:
    with pytest.raises(ConfigurationError, match=exactly(message)):
        padding_mask(lengths, max_length=max_length)


@given(queries=st.integers(1, 6), more=st.integers(0, 4))
def test_a_query_sees_what_came_before_it(queries: int, more: int) -> None:
    mask = causal_mask(queries, queries + more)

    assert mask.tolist() == [
        [key > query + more for key in range(queries + more)] for query in range(queries)
    ]


def test_a_causal_mask_is_square_unless_said() -> None:
    assert causal_mask(2).tolist() == [[False, True], [False, False]]


@pytest.mark.parametrize(("queries", "keys"), [(3, 2), (0, 2)])
def test_queries_without_keys_are_refused(queries: int, keys: int) -> None:
    message = f"a causal mask needs from 1 to {keys} queries for {keys} keys, got {queries}"

    with pytest.raises(ConfigurationError, match=exactly(message)):
        causal_mask(queries, keys)


def test_nothing_masked_is_no_mask() -> None:
    assert join(None, None) is None
    assert mask_bias(None, torch.float32) is None


@given(data=st.data(), dimensions=st.sampled_from([2, 3, 4]))
def test_joined_is_what_either_hides(data: st.DataObject, dimensions: int) -> None:
    seed = data.draw(st.integers(0, 1000))
    generator = torch.Generator().manual_seed(seed)
    padding = torch.rand(2, 5, generator=generator) < 0.3
    shape = {2: (4, 5), 3: (2, 4, 5), 4: (2, 3, 4, 5)}[dimensions]
    pairs = torch.rand(shape, generator=generator) < 0.3
    # Key 0 stays, so that no row is masked whole.
    padding[:, 0] = False
    pairs[..., 0] = False

    masked = join(padding, pairs)

    assert masked is not None
    full = masked.expand(2, 3, 4, 5)
    bias = mask_bias(masked, torch.bfloat16)
    assert bias is not None
    assert bias.dtype is torch.bfloat16
    assert torch.equal(bias == -torch.inf, masked)
    assert bias[~masked].eq(0.0).all()
    for batch, head, query, key in torch.cartesian_prod(*map(torch.arange, (2, 3, 4, 5))).tolist():
        pair = {2: (query, key), 3: (batch, query, key), 4: (batch, head, query, key)}[dimensions]
        hidden = bool(padding[batch, key]) or bool(pairs[pair])
        assert bool(full[batch, head, query, key]) is hidden


@pytest.mark.parametrize("shape", [(5, 4), (4,), (3, 4, 5), (2, 2, 4, 5), (1, 4, 5)])
def test_pairs_of_another_shape_are_refused(shape: tuple[int, ...]) -> None:
    message = f"attention_mask must have shape (4, 5) or (2, 4, 5) or (2, 3, 4, 5), got {shape}"

    with pytest.raises(ConfigurationError, match=exactly(message)):
        join(None, torch.zeros(shape, dtype=torch.bool))


def test_pairs_of_another_type_are_refused() -> None:
    message = "attention_mask must be bool (True = masked), got torch.float32"

    with pytest.raises(ConfigurationError, match=exactly(message)):
        join(None, torch.zeros(4, 5))


def test_rows_that_only_both_masks_hide_are_refused() -> None:
    padding = torch.tensor([[False, True, True, True, True]] * 2)
    pairs = torch.zeros(4, 5, dtype=torch.bool)
    pairs[1, 0] = True
    message = (
        "2 rows of 8 are masked whole: each query needs at least 1 key that it may attend to, got 0"
    )

    masked = join(padding, pairs)

    assert masked is not None
    with pytest.raises(ConfigurationError, match=exactly(message)):
        check_masked_rows(masked)
