"""The encoder: against transformers' BERT, alone and in batches, in float32 and bfloat16."""

from typing import get_args

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor, nn

from model.backends.eager import avoid_kernel_cache, collate
from model.network.config import Activation
from model.network.encoder import EncoderClassifier
from model.types import Batch, Encoding
from tests.builders import MAX_LENGTH, VOCABULARY, tiny_config, tiny_network

texts = st.lists(st.integers(0, len(VOCABULARY) - 1), min_size=1, max_size=MAX_LENGTH)
FLOAT32_NETWORK = tiny_network()
BFLOAT16_NETWORK = tiny_network(std=0.3)
BFLOAT16_NETWORK.compute_in(torch.bfloat16)


def batch_of(*rows: list[int]) -> Batch:
    encodings = [Encoding(input_ids=row, truncated=False) for row in rows]
    return collate(encodings, pad_token_id=0)


def random_batch(*lengths: int) -> Batch:
    generator = torch.Generator().manual_seed(len(lengths))
    return batch_of(
        *(
            torch.randint(len(VOCABULARY), (length,), generator=generator).tolist()
            for length in lengths
        )
    )


def probabilities(
    network: EncoderClassifier, batch: Batch, *, need_weights: bool = False
) -> Tensor:
    with torch.inference_mode():
        logits: Tensor = network(batch, need_weights=need_weights).logits
    return logits.softmax(dim=-1)


@given(st.lists(texts, min_size=1, max_size=6))
def test_a_text_gets_the_same_answer_alone_and_in_any_batch(rows: list[list[int]]) -> None:
    for network, tolerance in ((FLOAT32_NETWORK, 1e-5), (BFLOAT16_NETWORK, 0.03)):
        together = probabilities(network, batch_of(*rows))
        alone = torch.cat([probabilities(network, batch_of(row)) for row in rows])
        torch.testing.assert_close(together, alone, rtol=0, atol=tolerance)
        explicit = probabilities(network, batch_of(*rows), need_weights=True)
        torch.testing.assert_close(explicit, together, rtol=0, atol=tolerance)


def test_the_padding_row_stays_zero_in_training() -> None:
    network = tiny_network().train()
    network(random_batch(5, 3)).logits.sum().backward()
    gradient = network.embeddings.tokens.weight.grad
    assert gradient is not None
    assert gradient[0].eq(0.0).all()
    assert gradient.abs().sum() > 0


@pytest.mark.parametrize("need_weights", [False, True])
def test_the_last_layer_computes_the_first_token_alone(*, need_weights: bool) -> None:
    network = tiny_network()
    lengths: list[int] = []
    for layer in network.layers:
        layer.register_forward_hook(lambda _, __, output: lengths.append(output[0].shape[1]))
    network(random_batch(9, 4), need_weights=need_weights)
    assert lengths == ([9, 9] if need_weights else [9, 1])


def test_fresh_weights_are_drawn_as_said() -> None:
    config = tiny_config(
        hidden_size=64, intermediate_size=256, pad_token_id=5, hidden_dropout_prob=0.3
    )
    network = tiny_network(config, std=0.02)

    assert network.embeddings.tokens.weight[5].eq(0.0).all()
    for name, module in network.named_modules():
        if isinstance(module, nn.LayerNorm):
            assert module.weight.eq(1.0).all(), name
        if isinstance(module, nn.LayerNorm | nn.Linear):
            assert module.bias.eq(0.0).all(), name
    drawn = network.get_parameter("layers.0.intermediate.weight")
    assert drawn.std().item() == pytest.approx(0.02, rel=0.05)
    assert drawn.mean().item() == pytest.approx(0.0, abs=0.001)
    assert network.classifier_dropout.p == network.embeddings.dropout.p == 0.3
    own = tiny_network(tiny_config(hidden_dropout_prob=0.3, classifier_dropout=0.0))
    assert own.classifier_dropout.p == 0.0


def gradients(network: EncoderClassifier, *, need_weights: bool = False) -> dict[str, Tensor]:
    network.zero_grad()
    network(random_batch(9, 4, 1), need_weights=need_weights).logits.pow(2).sum().backward()
    found = {name: parameter.grad for name, parameter in network.named_parameters()}
    return {name: gradient.clone() for name, gradient in found.items() if gradient is not None}


@pytest.mark.parametrize("activation", get_args(Activation))
def test_all_ways_through_a_layer_have_the_same_numbers_and_derivatives(
    activation: Activation,
) -> None:
    network, batch = tiny_network(tiny_config(hidden_act=activation)).double(), random_batch(9, 4)
    logits, expected = network(batch).logits, gradients(network)
    explicit = gradients(network, need_weights=True)
    avoid_kernel_cache(network)
    own = gradients(network)
    assert expected.keys() == dict(network.named_parameters()).keys()
    assert explicit.keys() == own.keys() == expected.keys()
    for name, gradient in expected.items():
        torch.testing.assert_close(explicit[name], gradient, rtol=1e-5, atol=1e-5)
        torch.testing.assert_close(own[name], gradient, rtol=1e-10, atol=1e-12)
    torch.testing.assert_close(network(batch).logits, logits, rtol=0, atol=1e-10)
    with torch.inference_mode():
        torch.testing.assert_close(network(batch).logits, logits, rtol=0, atol=1e-10)
