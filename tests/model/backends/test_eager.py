"""Backends that run the modules of a network as they are read."""

from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path

import pytest
import torch
from torch import Tensor

from model.backends import cuda
from model.backends.base import Selection
from model.backends.cuda import CudaBackend, CudaRunner
from model.backends.eager import CpuBackend, collate, ready_copy
from model.checkpoint.opening import open_checkpoint
from model.explain.on_demand import OnDemand
from model.network.architecture import Network
from model.network.attention import MultiHeadAttention
from model.network.encoder import EncoderClassifier
from model.types import Batch, Encoding
from tests.builders import tiny_checkpoint, tiny_conv_network, tiny_network

TEXTS = [Encoding([2, 5, 6, 7, 3], truncated=False), Encoding([2, 8, 3], truncated=False)]


def batch() -> Batch:
    """Two texts of unequal lengths."""
    return collate(TEXTS, pad_token_id=0)


@pytest.mark.parametrize(
    ("error", "code", "fatal"),
    [
        (RuntimeError("CUDA error: device-side assert triggered"), None, True),
        (torch.AcceleratorError("CUDA error: an illegal memory access"), None, True),
        (torch.OutOfMemoryError("CUDA out of memory: unknown error"), None, False),
        (RuntimeError("CUDA error: invalid configuration argument"), None, False),
        (ValueError("CUDA error: device-side assert triggered"), None, False),
        # The code decides before the words.
        (torch.AcceleratorError("CUDA error: invalid configuration argument"), 719, True),
        (torch.AcceleratorError("CUDA error: unspecified launch failure"), 9, False),
    ],
    ids=lambda value: str(value)[:40],
)
def test_fatal_errors_of_a_gpu_are_told_apart(
    error: Exception, code: int | None, fatal: bool
) -> None:
    if code is not None:
        error.error_code = code  # type: ignore[attr-defined]

    assert CudaBackend("cuda:0", "float32", threads=1).is_fatal(error) is fatal
    assert not CpuBackend("cpu", "float32", threads=1).is_fatal(error)


def test_a_gpu_has_exact_float32_and_no_attention_of_cudnn(tmp_path: Path) -> None:
    matmul, conv = torch.backends.cuda.matmul, torch.backends.cudnn.conv  # type: ignore[attr-defined]
    before = matmul.fp32_precision, conv.fp32_precision
    matmul.fp32_precision = conv.fp32_precision = "tf32"
    torch.backends.cuda.enable_cudnn_sdp(True)
    backend = CudaBackend("cpu", "float32", threads=1)
    try:
        runner = backend.load(open_checkpoint(tiny_checkpoint(tmp_path / "tiny")))
        assert isinstance(runner, CudaRunner)
        assert (matmul.fp32_precision, conv.fp32_precision) == ("ieee", "ieee")
        assert not torch.backends.cuda.cudnn_sdp_enabled()  # type: ignore[no-untyped-call]
    finally:
        matmul.fp32_precision, conv.fp32_precision = before


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


def test_what_leaves_a_gpu_is_cut_stacked_and_copied_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """CUDA's part is played: copies and the event are only written down, in their order."""
    told: list[object] = []

    class Event:
        def record(self) -> None:
            told.append("record")

        def synchronize(self) -> None:
            told.append("wait")

    def copy_out(tensor: Tensor) -> Tensor:
        told.append(tuple(tensor.shape))
        return tensor

    monkeypatch.setattr(torch.cuda, "Event", Event)
    monkeypatch.setattr(torch.cuda, "device", lambda _: nullcontext())
    monkeypatch.setattr(cuda, "_copy_out", copy_out)
    network = tiny_network().eval()
    device = torch.device("cpu")
    runner = CudaRunner(network, OnDemand(lambda: network), device=device, pad_token_id=0)

    started = runner.start(batch(), Selection((1,), (0,)))
    assert told == [(2, 2), (1, 2, 1, 5, 5), "record"]
    output = runner.finish(started)
    assert told[-1] == "wait"
    with torch.inference_mode():
        expected = network(batch(), need_weights=True).attention_weights[1][:, :1]
    assert [layer.shape for layer in output.weights] == [(2, 1, 5, 5)]
    torch.testing.assert_close(torch.from_numpy(output.weights[0]), expected)
    told.clear()
    assert runner.finish(runner.start(batch())).weights == ()
    assert told == [(2, 2), "record", "wait"]
