"""Weights with which a text could overflow are refused; with others every text has an answer."""

from collections.abc import Callable
from pathlib import Path

import pytest
import torch

from model.backends.base import Backend, Selection
from model.backends.cpu_kernels import KernelBackend
from model.backends.eager import CpuBackend
from model.backends.kernels import KINDS, choose_set
from model.checkpoint.opening import open_checkpoint
from model.checkpoint.overflow import check_magnitudes
from model.errors import CheckpointError
from model.loading import load_predictor
from model.network.architecture import Network, own_name
from model.network.batch import collate
from model.network.encoder import EncoderClassifier
from model.tokenization.tokenizer import Encoding
from tests.builders import tiny_checkpoint, tiny_conv_network, tiny_network
from tests.matching import exactly

CPU = torch.device("cpu")
LENGTH = 8
NETWORKS: dict[str, Callable[[], Network]] = {
    "encoder": tiny_network,
    "convolution": tiny_conv_network,
}
CASES = [(kind, name) for kind, make in NETWORKS.items() for name, _ in make().named_parameters()]
FACTORS = (1e3, 1e8, 1e13, 1e16, 1e18, 1e20, 1e25, 1e30, 1e34)


def fits(network: Network, dtype: torch.dtype = torch.float32) -> bool:
    """Whether the weights are accepted."""
    try:
        check_magnitudes(Path("weights"), network, dtype=dtype, stored_name=own_name)
    except CheckpointError:
        return False
    return True


def answers_are_finite(network: Network, backend: Backend) -> bool:
    """Whether every token, alone and beside others, has finite logits and weights."""
    runner = backend.load(network, pad_token_id=0, num_heads=2)
    ids = list(range(next(network.parameters()).shape[0]))
    texts = [Encoding([token] * LENGTH, truncated=False) for token in ids]
    texts += [
        Encoding(ids[start : start + LENGTH], truncated=False) for start in ids[: -LENGTH + 1]
    ]
    batch = collate(texts, pad_token_id=0)
    layers = (0, 1) if isinstance(network, EncoderClassifier) else (0,)
    fused = runner.to_host(runner.predict(batch)).logits
    explained = runner.to_host(runner.explain(batch, Selection(layers, (0, 1))))
    numbers = [fused, explained.logits, *explained.weights]
    return all(bool(torch.from_numpy(each).isfinite().all()) for each in numbers)


@pytest.mark.parametrize(("kind", "name"), CASES)
def test_with_what_is_accepted_no_text_overflows(kind: str, name: str) -> None:
    accepted = {}
    for factor in FACTORS:
        network = NETWORKS[kind]()
        with torch.no_grad():
            parameter = network.get_parameter(name)
            # A bias of zeros grows too.
            parameter.copy_((parameter + 0.01) * factor)
        if fits(network):
            accepted[factor] = network
    # What is usual is accepted, with room for more; what is absurd is not.
    assert len(accepted) >= 2
    assert tuple(accepted) == FACTORS[: len(accepted)]
    backends: list[Backend] = [
        CpuBackend(CPU, torch.float32, threads=1),
        CpuBackend(CPU, torch.bfloat16, threads=1),
    ]
    if kind == "encoder":
        backends += [KernelBackend(CPU, dtype, threads=1) for dtype in KINDS if choose_set(dtype)]
    largest = accepted[max(accepted)]
    assert all(answers_are_finite(largest, backend) for backend in backends)


def test_one_row_of_the_embedding_is_enough(tmp_path: Path) -> None:
    network = tiny_network()
    with torch.no_grad():
        network.embeddings.tokens.weight[17] = 1e30
    assert not answers_are_finite(network, CpuBackend(CPU, torch.float32, threads=1))
    folder = tiny_checkpoint(tmp_path / "tiny", network=network)
    message = (
        f"{folder / 'model.safetensors'}: bert.embeddings.word_embeddings.weight is too large to "
        "compute with: numbers there may reach 8.0e+60, and the limit is 1.0e+35"
    )
    for dtype in (torch.float32, torch.bfloat16):
        with pytest.raises(CheckpointError, match=exactly(message)):
            load_predictor(open_checkpoint(folder), device=CPU, dtype=dtype)


def test_float16_must_hold_the_weights_themselves() -> None:
    network = tiny_network()
    with torch.no_grad():
        network.classifier.bias.fill_(7e4)
    assert fits(network, torch.bfloat16)
    assert not fits(network, torch.float16)


def test_the_default_model_is_far_from_the_limit() -> None:
    checkpoint = open_checkpoint(Path("checkpoints/default"))
    network = checkpoint.load_network()
    with torch.no_grad():
        for parameter in network.parameters():
            parameter.mul_(100.0)
    assert fits(network)
