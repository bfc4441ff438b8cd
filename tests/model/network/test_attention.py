"""Multi-head attention against torch's own, on the same weights."""

import math
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from model.errors import ConfigurationError
from model.network.attention import MultiHeadAttention, Score
from tests.matching import exactly


def draw(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


def sized(**sizes: int) -> MultiHeadAttention:
    return MultiHeadAttention(**sizes, bias=True, dropout=0.0, score="scaled_dot_product")


def build(*, seed: int = 0, **sizes: int) -> MultiHeadAttention:
    attention = sized(**sizes)
    for number, parameter in enumerate(attention.parameters()):
        nn.init.normal_(parameter, generator=torch.Generator().manual_seed(100 * seed + number))
    return attention.eval()


def test_default_sizes() -> None:
    attention = MultiHeadAttention(num_heads=2, query_size=6)

    assert attention.head_dim == attention.value_head_dim == 3
    shapes = {name: tuple(weight.shape) for name, weight in attention.named_parameters()}
    assert shapes == {
        "query.weight": (6, 6),
        "query.bias": (6,),
        "key.weight": (6, 6),
        "key.bias": (6,),
        "value.weight": (6, 6),
        "value.bias": (6,),
        "output.weight": (6, 6),
        "output.bias": (6,),
    }


def test_values_are_of_the_size_of_keys_unless_said() -> None:
    attention = MultiHeadAttention(num_heads=2, query_size=6, key_size=5)

    assert attention.value.in_features == 5


def test_without_bias() -> None:
    attention = MultiHeadAttention(num_heads=2, query_size=6, bias=False)

    assert [name for name, _ in attention.named_parameters()] == [
        "query.weight",
        "key.weight",
        "value.weight",
        "output.weight",
    ]


def test_returned_weights_are_those_before_dropout() -> None:
    attention = MultiHeadAttention(num_heads=2, query_size=8, dropout=0.5)
    hidden_states = draw(3, 7, 8)
    with torch.no_grad():
        expected = attention.eval()(hidden_states, hidden_states, hidden_states, need_weights=True)
        torch.manual_seed(0)
        dropped = attention.train()(hidden_states, hidden_states, hidden_states, need_weights=True)

    assert dropped.attention_weights.equal(expected.attention_weights)
    assert not dropped.hidden_states.allclose(expected.hidden_states)


@pytest.mark.parametrize("need_weights", [False, True])
def test_dropout_only_in_training(need_weights: bool) -> None:
    attention = MultiHeadAttention(num_heads=2, query_size=8, dropout=0.5)
    states = draw(3, 7, 8)

    def run() -> Tensor:
        output: Tensor = attention(states, states, states, need_weights=need_weights)[0]
        return output

    with torch.no_grad():
        attention.train()
        torch.manual_seed(0)
        first, second = run(), run()
        attention.eval()
        third, fourth = run(), run()

    assert not first.allclose(second)
    assert third.equal(fourth)


@pytest.mark.parametrize(
    "name",
    [
        "num_heads",
        "query_size",
        "key_size",
        "value_size",
        "head_dim",
        "value_head_dim",
        "output_size",
    ],
)
@pytest.mark.parametrize("size", [0, -3])
def test_sizes_below_1_are_refused(name: str, size: int) -> None:
    sizes = {"num_heads": 2, "query_size": 8, name: size}

    with pytest.raises(ConfigurationError, match=exactly(f"{name} must be at least 1, got {size}")):
        sized(**sizes)


def test_heads_that_do_not_divide_are_refused() -> None:
    message = (
        "query_size (8) is not divisible by num_heads (3): choose sizes that divide, or give "
        "head_dim"
    )

    with pytest.raises(ConfigurationError, match=exactly(message)):
        MultiHeadAttention(num_heads=3, query_size=8)


@pytest.mark.parametrize("dropout", [-0.1, 1.0, 1.5, math.nan])
def test_dropout_that_is_no_share_is_refused(dropout: float) -> None:
    message = f"dropout must be at least 0 and below 1, got {dropout}"

    with pytest.raises(ConfigurationError, match=exactly(message)):
        MultiHeadAttention(num_heads=2, query_size=8, dropout=dropout)


def test_mask_of_another_type_is_refused() -> None:
    attention = MultiHeadAttention(num_heads=2, query_size=8)
    states = draw(2, 5, 8)
    message = "key_padding_mask must be bool (True = masked), got torch.int64"

    with pytest.raises(ConfigurationError, match=exactly(message)):
        attention(states, states, states, key_padding_mask=torch.zeros(2, 5, dtype=torch.int64))


@pytest.mark.parametrize("shape", [(2, 4), (5, 2), (1, 5), (2, 1, 1, 5)])
def test_mask_of_another_shape_is_refused(shape: tuple[int, ...]) -> None:
    attention = MultiHeadAttention(num_heads=2, query_size=8)
    states = draw(2, 5, 8)
    message = f"key_padding_mask must have shape (2, 5), got {shape}"

    with pytest.raises(ConfigurationError, match=exactly(message)):
        attention(states, states, states, key_padding_mask=torch.zeros(shape, dtype=torch.bool))


@pytest.mark.parametrize("score", ["scaled_dot_product", "additive"])
@pytest.mark.parametrize("given", [{}, {"head_dim": 5}, {"key_size": 3}, {"output_size": 7}])
def test_sizes_are_inferred_at_the_first_call(given: dict[str, int], score: Score) -> None:
    """And from then on all is as if they had been given."""
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


def test_what_is_inferred_must_divide_too() -> None:
    lazy = MultiHeadAttention(num_heads=4, query_size=None)
    states = draw(1, 3, 10)
    message = (
        "query_size (10) is not divisible by num_heads (4): choose sizes that divide, or give "
        "head_dim"
    )

    with pytest.raises(ConfigurationError, match=exactly(message)):
        lazy(states, states, states)


def test_a_saved_module_fills_a_lazy_one() -> None:
    eager = build(num_heads=2, query_size=6)
    lazy = MultiHeadAttention(num_heads=2, query_size=None)
    lazy.load_state_dict(eager.state_dict())
    states = draw(2, 4, 6)

    with torch.no_grad():
        found, expected = lazy(states, states, states)[0], eager(states, states, states)[0]

    assert found.equal(expected)


def test_the_additive_score_never_returns_weights_unasked() -> None:
    attention = MultiHeadAttention(num_heads=2, query_size=8, score="additive")
    states = draw(2, 5, 8)

    assert attention(states, states, states).attention_weights is None
    assert tuple(attention.additive.weight.shape) == (2, 4)


def test_an_unknown_score_is_refused() -> None:
    message = "score must be scaled_dot_product or additive, got cosine"

    with pytest.raises(ConfigurationError, match=exactly(message)):
        MultiHeadAttention(num_heads=2, query_size=8, score="cosine")  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("shapes", "message"),
    [
        (((2, 4, 9), (2, 5, 8), (2, 5, 8)), "query must have 8 features, got 9"),
        (((2, 4, 8), (2, 5, 7), (2, 5, 8)), "key must have 8 features, got 7"),
        (((2, 4, 8), (2, 5, 8), (2, 5, 6)), "value must have 8 features, got 6"),
        (((2, 4, 8), (3, 5, 8), (3, 5, 8)), "key must have the batch size of query, 2, got 3"),
        (((2, 4, 8), (2, 5, 8), (1, 5, 8)), "value must have the batch size of query, 2, got 1"),
        (
            ((2, 4, 8), (2, 5, 8), (2, 6, 8)),
            "key and value must have the same length, got 5 and 6",
        ),
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
