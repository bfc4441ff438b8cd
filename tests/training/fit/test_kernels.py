"""Which kernel computes the attention of a training step."""

from typing import Any

import pytest
import torch
from torch import Tensor
from torch.nn import functional

from model.network.encoder import EncoderClassifier
from model.types import Batch, ClassifierOutput
from tests.builders import tiny_config, tiny_network, tiny_tokenizer
from tests.training.tiny_runs import build_trainer
from training.device import attention_kernel
from training.fit.recipe import Recipe
from training.fit.rows import EncodedRows

FUSED = "ScaledDotProductFlashAttentionForCpuBackward0"


def gradient_functions(tensor: Tensor) -> set[str]:
    """Names of all that the gradient of a tensor passes through."""
    names: set[str] = set()
    left: list[Any] = [tensor.grad_fn]
    while left:
        function = left.pop()
        if function is not None and function not in names:
            names.add(function.name())
            left.extend(above for above, _ in function.next_functions)
    return names


def test_another_device_keeps_its_own_choice() -> None:
    query = torch.randn(1, 2, 4, 8).requires_grad_()  # [B, H, T, D]
    with attention_kernel(4, torch.device("meta")):
        attended = functional.scaled_dot_product_attention(query, query, query)
    assert FUSED in gradient_functions(attended)


@pytest.mark.parametrize(("words", "is_fused"), [(3, False), (158, False), (159, True)])
def test_a_step_of_the_loop_chooses_by_its_longest_text(words: int, is_fused: bool) -> None:
    """Of at most 160 tokens, two of them special, without the fused kernel."""
    # Dropout on the weights would keep the fused kernel out by itself.
    config = tiny_config(max_position_embeddings=256, attention_probs_dropout_prob=0.0)
    network = tiny_network(config)
    tokenizer = tiny_tokenizer(max_length=256)
    known = EncodedRows([tokenizer.encode("good"), tokenizer.encode("film " * words)], [1, 0])
    recipe = Recipe.model_validate({"batch_size": 2, "epochs": 1, "learning_rate": 1e-3})
    seen: list[set[str]] = []

    def look(module: EncoderClassifier, given: tuple[Batch], output: ClassifierOutput) -> None:
        del given
        if module.training:
            seen.append(gradient_functions(output.logits))

    network.register_forward_hook(look)
    trainer = build_trainer(network, known, recipe)
    trainer.run(save_every=500, stop=lambda: None, record=lambda _: None)
    assert [FUSED in names for names in seen] == [is_fused]
