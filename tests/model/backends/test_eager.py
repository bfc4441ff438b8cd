"""Backends that run the modules of a network as they are read."""

from collections.abc import Callable

import pytest
import torch

from model.backends.eager import collate, ready_copy
from model.network.architecture import Network
from model.network.attention import MultiHeadAttention
from model.network.encoder import EncoderClassifier
from model.types import Batch, Encoding
from tests.builders import tiny_conv_network, tiny_network

TEXTS = [Encoding([2, 5, 6, 7, 3], truncated=False), Encoding([2, 8, 3], truncated=False)]


def batch() -> Batch:
    """Two texts of unequal lengths."""
    return collate(TEXTS, pad_token_id=0)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_a_copy_shares_what_stays_float32(dtype: torch.dtype) -> None:
    network = tiny_network().eval()
    state = {name: weight.clone() for name, weight in network.state_dict().items()}
    served = ready_copy(network, dtype)
    assert isinstance(served, EncoderClassifier)
    tokens = network.embeddings.tokens.weight
    assert served.embeddings.tokens.weight.data_ptr() == tokens.data_ptr()
    types = {name: parameter.dtype for name, parameter in served.layers.named_parameters()}
    assert all(kind is (torch.float32 if "norm" in name else dtype) for name, kind in types.items())
    assert served.pooler.weight.dtype is torch.float32
    for name, weight in network.state_dict().items():
        assert torch.equal(weight, state[name]), name
    names = [name for name, _ in network.named_parameters()]
    assert [name for name, _ in served.named_parameters()] == names


@pytest.mark.parametrize("make", [tiny_network, tiny_conv_network])
def test_one_product_of_queries_keys_and_values_changes_nothing(
    make: Callable[[], Network],
) -> None:
    network = make().eval()
    served = ready_copy(network, torch.float32)
    with torch.inference_mode():
        for need_weights in (False, True):
            found = served(batch(), need_weights=need_weights)
            expected = network(batch(), need_weights=need_weights)
            torch.testing.assert_close(found.logits, expected.logits, atol=1e-6, rtol=1e-6)
            torch.testing.assert_close(found.attention_weights, expected.attention_weights)
    attention = next(each for each in served.modules() if isinstance(each, MultiHeadAttention))
    parts = (attention.query, attention.key, attention.value)
    assert len({part.weight.untyped_storage().data_ptr() for part in parts}) == 1


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_scores_are_float32_where_projections_are_not(dtype: torch.dtype) -> None:
    """Products of 16 bits would be off by a thousandth and more."""
    torch.manual_seed(0)
    attention = MultiHeadAttention(num_heads=2, query_size=64).to(dtype)
    torch.nn.init.normal_(attention.query.weight, std=0.5)
    torch.nn.init.normal_(attention.key.weight, std=0.5)
    states = torch.randn(1, 24, 64).to(dtype)

    with torch.inference_mode():
        weights = attention(states, states, states, need_weights=True).attention_weights
        queries, keys = (
            projection(states).double().view(1, 24, 2, 32).transpose(1, 2)
            for projection in (attention.query, attention.key)
        )
    expected = (queries @ keys.transpose(-2, -1) / 32**0.5).softmax(-1)

    assert weights is not None
    torch.testing.assert_close(weights.double(), expected, atol=1e-5, rtol=0.0)


def test_scores_are_float32_under_autocast_too() -> None:
    torch.manual_seed(0)
    attention = MultiHeadAttention(num_heads=2, query_size=64)
    torch.nn.init.normal_(attention.query.weight, std=0.5)
    states = torch.randn(1, 24, 64)
    with torch.inference_mode(), torch.autocast("cpu", torch.bfloat16):
        weights = attention(states, states, states, need_weights=True).attention_weights
    assert weights is not None
    assert weights.dtype is torch.float32
    torch.testing.assert_close(weights.sum(-1), torch.ones(1, 2, 24), atol=1e-5, rtol=0.0)
