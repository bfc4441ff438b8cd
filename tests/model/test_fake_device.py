"""The way through a GPU, on a device that computes nothing: nothing is read on the host in a pass.

Each test would fail if a pass mixed tensors of host and device, or asked for a number.
"""

from collections.abc import Callable

import pytest
import torch
from torch import Tensor

from model.backends.base import Selection
from model.backends.cuda import CudaRunner
from model.backends.eager import EagerRunner, ready_copy
from model.explain.on_demand import OnDemand
from model.network.architecture import Network
from model.network.attention import MultiHeadAttention
from model.network.conv_attention import ConvAttentionClassifier
from model.types import Batch
from tests.builders import tiny_conv_network, tiny_network
from tests.fake_device import DEVICE, FakeDevice

TEXTS, TOKENS, LAYERS, HEADS, LABELS = 3, 7, 2, 2, 2


def place(device: FakeDevice, served: Network) -> Network:
    """Moves a network that is ready to serve to the device."""
    device.place(served)
    with device.on():
        for module in served.modules():
            if isinstance(module, MultiHeadAttention):
                module.join_projections()
    return served


def batch_on(device: FakeDevice, *, padded: bool) -> Batch:
    """Texts of unequal lengths, or of one."""
    padding = device.tensor(TEXTS, TOKENS, dtype=torch.bool) if padded else None
    return Batch(device.tensor(TEXTS, TOKENS, dtype=torch.int64), padding)


def check(tensor: Tensor, *shape: int) -> None:
    """A float32 tensor of a shape, on the device."""
    assert (tensor.device, tensor.dtype, tensor.shape) == (DEVICE, torch.float32, shape)


@pytest.mark.parametrize("padded", [True, False])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("make", [tiny_network, tiny_conv_network])
def test_both_paths(make: Callable[[], Network], padded: bool, dtype: torch.dtype) -> None:
    plain = make()
    if isinstance(plain, ConvAttentionClassifier):
        plain.mask_padding = padded
    ready = ready_copy(plain, dtype)
    device = FakeDevice()
    network = place(device, ready)
    chosen: list[tuple[tuple[int, ...], tuple[int, ...]]]
    chosen = [((0,), (1,))] if make is tiny_conv_network else [((0, 1), (0, 1)), ((1,), (0,))]
    with device.on():
        runner = EagerRunner(network, OnDemand(lambda: plain), device=DEVICE, pad_token_id=0)
        batch = batch_on(device, padded=padded)

        check(runner.compute(batch)[0], TEXTS, LABELS)
        for layers, heads in chosen:
            logits, explained = runner.compute(batch, Selection(layers, heads))
            check(logits, TEXTS, LABELS)
            assert len(explained) == len(layers)
            for weights in explained:
                check(weights, TEXTS, len(heads), TOKENS, TOKENS)


class Capturing(CudaRunner):
    """Runs what a graph holds, once, and looks at its result."""

    def capture(self, compute: Callable[[], Tensor]) -> Callable[[], Tensor]:
        check(compute(), 4, LABELS)
        return compute


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize(("make", "longest"), [(tiny_network, 16), (tiny_conv_network, 8)])
def test_a_graph(
    make: Callable[[], Network], longest: int, dtype: torch.dtype, caplog: pytest.LogCaptureFixture
) -> None:
    plain = make()
    ready = ready_copy(plain, dtype)
    device = FakeDevice()
    network = place(device, ready)
    with device.on(), torch.inference_mode():
        runner = Capturing(
            network,
            OnDemand(lambda: plain),
            device=DEVICE,
            pad_token_id=0,
            max_length=longest,
            batch_tokens=64,
        )
        runner._capture((4, longest))
    assert not caplog.records


def test_head_masks_and_gradients() -> None:
    device = FakeDevice()
    with device.on():
        network = device.place(tiny_network())
        batch = batch_on(device, padded=True)
        heads = device.tensor(LAYERS, HEADS, dtype=torch.float32).requires_grad_()
        embeddings = network.embed_tokens(batch.input_ids).detach().requires_grad_()
        logits = network(batch, token_embeddings=embeddings, head_mask=heads).logits
        by_embedding, by_head = torch.autograd.grad(logits.sum(), [embeddings, heads])
        check(by_embedding, TEXTS, TOKENS, embeddings.shape[-1])
        check(by_head, LAYERS, HEADS)
