"""Multi-head attention and its masks, against the attention that is written out in NumPy."""

import math
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor, nn

from model import causal_mask, padding_mask
from model.errors import ConfigurationError
from model.network.attention import MultiHeadAttention, Score
from model.network.reference import multi_head_attention
from tests.matching import exactly


def draw(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


def test_default_sizes() -> None:
    attention = MultiHeadAttention(num_heads=2, query_size=6)
    assert attention.head_dim == attention.value_head_dim == 3
    parts = ("query", "key", "value", "output")
    shapes = {name: tuple(weight.shape) for name, weight in attention.named_parameters()}
    weights = {f"{part}.weight": (6, 6) for part in parts}
    assert shapes == weights | {f"{part}.bias": (6,) for part in parts}
    without = MultiHeadAttention(num_heads=2, query_size=6, bias=False)
    assert {name for name, _ in without.named_parameters()} == weights.keys()
    assert MultiHeadAttention(num_heads=2, query_size=6, key_size=5).value.in_features == 5


@pytest.mark.parametrize("need_weights", [True, False])
def test_returned_weights_are_those_before_dropout(need_weights: bool) -> None:
    attention = MultiHeadAttention(num_heads=2, query_size=8, dropout=0.5)
    states = draw(3, 7, 8)
    with torch.no_grad():
        expected = attention.eval()(states, states, states, need_weights=need_weights)
        torch.manual_seed(0)
        dropped = attention.train()(states, states, states, need_weights=need_weights)
    assert not dropped.hidden_states.allclose(expected.hidden_states)
    if need_weights:
        assert dropped.attention_weights.equal(expected.attention_weights)


DIVIDE = (
    "query_size ({}) is not divisible by num_heads ({}): choose sizes that divide, or give head_dim"
)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        *(({name: 0}, f"{name} must be at least 1, got 0") for name in ("num_heads", "key_size")),
        ({"num_heads": 3}, DIVIDE.format(8, 3)),
        ({"score": "cosine"}, "score must be scaled_dot_product or additive, got cosine"),
        ({"dropout": 1.0}, "dropout must be at least 0 and below 1, got 1.0"),
        ({"dropout": math.nan}, "dropout must be at least 0 and below 1, got nan"),
    ],
)
def test_wrong_options_are_refused(options: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigurationError, match=exactly(message)):
        MultiHeadAttention(**{"num_heads": 2, "query_size": 8, **options})


SHAPES = "(4, 5) or (2, 4, 5) or (2, 3, 4, 5)"


@pytest.mark.parametrize(
    ("name", "mask", "error"),
    [
        ("key_padding_mask", torch.zeros(2, 5), "be bool (True = masked), got torch.float32"),
        ("key_padding_mask", torch.zeros(5, 2).bool(), "have shape (2, 5), got (5, 2)"),
        ("attention_mask", torch.zeros(5, 4).bool(), f"have shape {SHAPES}, got (5, 4)"),
        ("attention_mask", torch.zeros(1, 4, 5).bool(), f"have shape {SHAPES}, got (1, 4, 5)"),
    ],
)
def test_another_mask_is_refused(name: str, mask: Tensor, error: str) -> None:
    attention = MultiHeadAttention(num_heads=3, query_size=6)
    queries, keys = draw(2, 4, 6), draw(2, 5, 6)
    with pytest.raises(ConfigurationError, match=exactly(f"{name} must {error}")):
        attention(queries, keys, keys, **{name: mask})


@pytest.mark.parametrize("score", ["scaled_dot_product", "additive"])
@pytest.mark.parametrize("given", [{}, {"head_dim": 5}, {"key_size": 3}, {"output_size": 7}])
def test_sizes_are_inferred_at_the_first_call(given: dict[str, int], score: Score) -> None:
    query, key, value = draw(2, 4, 6), draw(2, 5, 3, seed=1), draw(2, 5, 3, seed=2)
    sizes: dict[str, Any] = {"key_size": 3, "value_size": 3, **given}
    eager = MultiHeadAttention(num_heads=2, query_size=6, score=score, **sizes)
    open_sizes: dict[str, Any] = dict(given)
    lazy = MultiHeadAttention(num_heads=2, query_size=None, score=score, **open_sizes)

    lazy(query, key, value)

    shapes = {name: tuple(weight.shape) for name, weight in eager.named_parameters()}
    assert {name: tuple(weight.shape) for name, weight in lazy.named_parameters()} == shapes
    assert (lazy.head_dim, lazy.value_head_dim) == (eager.head_dim, eager.value_head_dim)
    lazy.load_state_dict(eager.state_dict())
    with torch.no_grad():
        found, expected = lazy(query, key, value)[0], eager(query, key, value)[0]
    assert found.equal(expected)
    with pytest.raises(ConfigurationError, match=exactly(DIVIDE.format(10, 4))):
        MultiHeadAttention(num_heads=4, query_size=None)(*[draw(1, 3, 10)] * 3)


@pytest.mark.parametrize(
    ("shapes", "message"),
    [
        (((2, 4, 9), (2, 5, 8), (2, 5, 8)), "query must have 8 features, got 9"),
        (((2, 4, 8), (2, 5, 8), (2, 5, 6)), "value must have 8 features, got 6"),
        (((2, 4, 8), (3, 5, 8), (3, 5, 8)), "key must have the batch size of query, 2, got 3"),
        (((2, 4, 8), (2, 5, 8), (2, 6, 8)), "key and value must have the same length, got 5 and 6"),
        (
            ((4, 8), (2, 5, 8), (2, 5, 8)),
            "query must have 3 dimensions, [batch, length, features], got 2: (4, 8)",
        ),
    ],
)
def test_tensors_that_do_not_fit_are_refused(
    shapes: tuple[tuple[int, ...], ...], message: str
) -> None:
    attention = MultiHeadAttention(num_heads=2, query_size=8)
    query, key, value = (torch.zeros(shape) for shape in shapes)
    with pytest.raises(ConfigurationError, match=exactly(message)):
        attention(query, key, value)


WITHIN = 1e-6


def arrays(module: nn.Module) -> dict[str, np.ndarray]:
    return {name: weight.detach().numpy() for name, weight in module.named_parameters()}


@st.composite
def masks(
    draw_: st.DrawFn, *, batch_size: int, num_heads: int, queries: int, keys: int
) -> tuple[Tensor | None, Tensor | None]:
    """Padding and pairs that leave every query at least key 0."""
    padding = pairs = None
    if draw_(st.booleans()):
        lengths = draw_(st.lists(st.integers(1, keys), min_size=batch_size, max_size=batch_size))
        padding = padding_mask(torch.tensor(lengths), max_length=keys)
    of_text = (queries, keys)
    shapes = [of_text, (batch_size, *of_text), (batch_size, num_heads, *of_text)]
    if (shape := draw_(st.none() | st.sampled_from(shapes))) is not None:
        generator = torch.Generator().manual_seed(draw_(st.integers(0, 1000)))
        pairs = torch.rand(shape, generator=generator) < 0.4
        pairs[..., 0] = False
    return padding, pairs


SIZES = ("head_dim", "value_head_dim", "query_size", "key_size", "value_size", "output_size")


@given(
    data=st.data(),
    num_heads=st.integers(1, 4),
    sizes=st.fixed_dictionaries(dict.fromkeys(SIZES, st.integers(1, 9))),
    lengths=st.tuples(st.integers(1, 3), st.integers(1, 6), st.integers(1, 6)),
    bias=st.booleans(),
    score=st.sampled_from(["scaled_dot_product", "additive"]),
    seed=st.integers(0, 1000),
)
def test_same_as_the_reference(
    data: st.DataObject,
    num_heads: int,
    sizes: dict[str, int],
    lengths: tuple[int, int, int],
    bias: bool,
    score: Score,
    seed: int,
) -> None:
    batch_size, queries, keys = lengths
    torch.manual_seed(seed)
    attention = MultiHeadAttention(num_heads=num_heads, bias=bias, score=score, **sizes).double()
    query = draw(batch_size, queries, sizes["query_size"], seed=seed)
    key = draw(batch_size, keys, sizes["key_size"], seed=seed + 1)
    value = draw(batch_size, keys, sizes["value_size"], seed=seed + 2)
    padding, pairs = data.draw(
        masks(batch_size=batch_size, num_heads=num_heads, queries=queries, keys=keys)
    )

    expected, expected_weights = multi_head_attention(
        query.numpy(),
        key.numpy(),
        value.numpy(),
        arrays(attention),
        num_heads=num_heads,
        key_padding_mask=None if padding is None else padding.numpy(),
        attention_mask=None if pairs is None else pairs.numpy(),
        score=score,
    )

    assert expected.dtype == expected_weights.dtype == np.float64
    for need_weights in (False, True):
        with torch.no_grad():
            found = attention(
                query.double(),
                key.double(),
                value.double(),
                key_padding_mask=padding,
                attention_mask=pairs,
                need_weights=need_weights,
            )
        np.testing.assert_allclose(found.hidden_states.numpy(), expected, rtol=0, atol=WITHIN)
        assert (found.attention_weights is None) != need_weights
        if need_weights:
            np.testing.assert_allclose(
                found.attention_weights.numpy(), expected_weights, rtol=0, atol=WITHIN
            )
    np.testing.assert_allclose(expected_weights.sum(axis=-1), 1.0, rtol=0, atol=1e-12)
    if padding is not None:
        hidden = np.broadcast_to(padding.numpy()[:, None, None, :], expected_weights.shape)
        assert (expected_weights[hidden] == 0.0).all()


def test_large_scores_do_not_overflow() -> None:
    weights = {f"{name}.weight": np.eye(2) for name in ("query", "key", "value", "output")}
    states = np.array([[[1e4, 0.0], [0.0, 1e4]]])
    output, attention = multi_head_attention(states, states, states, weights, num_heads=1)
    assert attention.tolist() == [[[[1.0, 0.0], [0.0, 1.0]]]]
    assert output.tolist() == states.tolist()


@given(lengths=st.lists(st.integers(1, 9), min_size=1, max_size=5), extra=st.integers(0, 4))
def test_padding_begins_where_a_text_ends(lengths: list[int], extra: int) -> None:
    longest = max(lengths) + extra
    mask = padding_mask(torch.tensor(lengths), max_length=longest)
    assert mask.tolist() == [[place >= length for place in range(longest)] for length in lengths]
    assert padding_mask(torch.tensor(lengths, dtype=torch.int32)).shape[1] == max(lengths)


@pytest.mark.parametrize(
    ("lengths", "max_length", "fault"),
    [
        (torch.tensor([2, 0]), None, "from 1 to 2, got 0 to 2"),
        (torch.tensor([2, 7]), 5, "from 1 to 5, got 2 to 7"),
        *(
            (wrong, None, f"integers of shape [B], B at least 1, got torch.int64 of shape {shape}")
            for wrong, shape in ((torch.tensor([[2]]), (1, 1)), (torch.zeros(0).long(), (0,)))
        ),
    ],
)
def test_wrong_lengths_are_refused(lengths: Tensor, max_length: int | None, fault: str) -> None:
    with pytest.raises(ConfigurationError, match=exactly(f"lengths must be {fault}")):
        padding_mask(lengths, max_length=max_length)


@given(queries=st.integers(1, 6), more=st.integers(0, 4))
def test_a_query_sees_what_came_before_it(queries: int, more: int) -> None:
    mask = causal_mask(queries, queries + more)
    assert mask.tolist() == [
        [key > query + more for key in range(queries + more)] for query in range(queries)
    ]
    assert causal_mask(queries).equal(causal_mask(queries, queries))


@pytest.mark.parametrize(("queries", "keys"), [(3, 2), (0, 2)])
def test_queries_without_keys_are_refused(queries: int, keys: int) -> None:
    message = f"a causal mask needs from 1 to {keys} queries for {keys} keys, got {queries}"
    with pytest.raises(ConfigurationError, match=exactly(message)):
        causal_mask(queries, keys)


def test_rows_that_only_both_masks_hide_are_refused() -> None:
    padding = torch.tensor([[False, True, True, True, True]] * 2)
    pairs = torch.zeros(4, 5, dtype=torch.bool)
    pairs[1, 0] = True
    attention = MultiHeadAttention(num_heads=2, query_size=6)
    queries, keys = draw(2, 4, 6), draw(2, 5, 6)
    message = (
        "2 rows of 8 are masked whole: each query needs at least 1 key that it may attend to, got 0"
    )
    with pytest.raises(ConfigurationError, match=exactly(message)):
        attention(queries, keys, keys, key_padding_mask=padding, attention_mask=pairs)
