"""Projections in bytes: near those of float32 numbers, and a token in any company the same."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor
from torch.nn import functional

from model.backends.device import computes_int8
from model.backends.quantized import project, quantize_weight

CPU = torch.device("cpu")

pytestmark = pytest.mark.skipif(not computes_int8(CPU), reason="this processor has no AVX-512 VNNI")

sizes = st.tuples(st.integers(1, 40), st.integers(1, 70), st.integers(1, 40))


def normal(*shape: int, seed: int) -> Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed))


def projected(states: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
    """By bytes."""
    return project(states, *quantize_weight(weight, bias))


def most_error(states: Tensor, weight: Tensor) -> Tensor:
    """What rounding may cost each output: half a step of each feature, and of each weight."""
    steps = (states.amax(1) - states.amin(1)) / 255
    scales = weight.abs().amax(1) / 127
    seen = weight.abs() + scales[:, None] / 2
    return steps[:, None] / 2 * seen.sum(1) + states.abs().sum(1)[:, None] * scales / 2


@given(
    sizes, st.integers(0, 1000), st.sampled_from([0.0, 1e-20, 1e-3, 1.0, 3e4]), st.integers(-3, 3)
)
def test_it_is_a_linear_layer_up_to_rounding(
    size: tuple[int, int, int], seed: int, width: float, shift: float
) -> None:
    tokens, features, outputs = size
    states = (normal(tokens, features, seed=seed) + shift) * width
    weight, bias = normal(outputs, features, seed=seed + 1), normal(outputs, seed=seed + 2)

    found = projected(states, weight, bias)

    expected = functional.linear(states.double(), weight.double(), bias.double())
    assert found.dtype == torch.float32
    excess = (found.double() - expected).abs() - most_error(states, weight).double()
    assert excess.max() <= 1e-5 * (1 + expected.abs().max())


@settings(max_examples=30)
@given(sizes, st.integers(0, 1000))
def test_a_token_is_the_same_in_any_company(size: tuple[int, int, int], seed: int) -> None:
    tokens, features, outputs = size
    states = normal(tokens, features, seed=seed)
    prepared = quantize_weight(normal(outputs, features, seed=1), normal(outputs, seed=2))

    together = project(states, *prepared)

    alone = [project(states[token : token + 1], *prepared) for token in range(tokens)]
    assert torch.equal(torch.cat(alone), together)


def test_numbers_that_are_none_stay_so() -> None:
    states = normal(2, 8, seed=0)
    states[1, 3] = torch.nan

    found = projected(states, normal(4, 8, seed=1), torch.zeros(4))

    assert found.isnan().all(1).tolist() == [False, True]
