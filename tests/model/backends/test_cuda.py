"""The way to a GPU, with a processor in its place: what is captured when, and what is replayed."""

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from unittest import mock

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from model.backends.base import Selection
from model.backends.cuda import CudaBackend, CudaRunner, Shape
from model.backends.device import choose_backend
from model.backends.eager import CpuBackend, EagerRunner
from model.checkpoint.opening import open_checkpoint
from model.explain.on_demand import OnDemand
from model.loading import load_on
from model.network.architecture import Network
from model.types import AttentionOptions, Batch, Classifier, ClassifierOutput, Encoding
from tests.builders import tiny_checkpoint, tiny_conv_network, tiny_network

CPU = torch.device("cpu")
PAD = 0


class OnCpu(CudaRunner):
    """Plays a GPU: a graph is the function, which fills the same output again."""

    def __init__(
        self,
        network: Classifier,
        *,
        batch_tokens: int = 256,
        max_length: int = 32,
        most_rows: int = 10_000,
    ) -> None:
        super().__init__(
            network,
            OnDemand(tiny_network),
            device=CPU,
            pad_token_id=PAD,
            max_length=max_length,
            batch_tokens=batch_tokens,
        )
        self.queued: list[str] = []
        self.last = torch.empty(0)
        self._most_rows = most_rows

    @property
    def _stream(self) -> None:
        return None

    def capture(self, compute: Callable[[], Tensor]) -> Callable[[], Tensor]:
        static = compute()
        self.queued.append("capture")
        if len(static) > self._most_rows:
            raise torch.OutOfMemoryError("CUDA out of memory")

        def replay() -> Tensor:
            self.queued.append("replay")
            self.last = static.copy_(compute())
            return self.last

        return replay

    def mark(self) -> Callable[[], None]:
        self.queued.append("mark")
        return lambda: self.queued.append("wait")


def texts_of(lengths: Sequence[int]) -> list[Encoding]:
    """Texts that differ."""
    draw = np.random.default_rng(len(lengths))
    return [Encoding(draw.integers(1, 30, length).tolist(), truncated=False) for length in lengths]


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


@pytest.mark.parametrize(
    ("batch_tokens", "max_length", "expected"),
    [
        (256, 32, [(16, 16), (4, 32), (4, 16), (1, 32), (1, 16)]),
        (64, 40, [(4, 16), (1, 40), (1, 32), (1, 16)]),
        # The limit does not hold for one text.
        (16, 8, [(1, 8)]),
    ],
)
def test_a_gpu_has_few_shapes_within_a_pass(
    batch_tokens: int, max_length: int, expected: list[Shape]
) -> None:
    runner = OnCpu(tiny_network(), batch_tokens=batch_tokens, max_length=max_length)
    assert runner.shapes == expected


class Zeros:
    """A network that computes nothing, and writes down the shapes of its passes."""

    def __init__(self) -> None:
        self.shapes: list[Shape] = []

    def __call__(self, batch: Batch, *, need_weights: bool = False) -> ClassifierOutput:
        assert not need_weights
        rows, columns = batch.input_ids.shape
        self.shapes.append((rows, columns))
        return ClassifierOutput(torch.zeros(rows, 2), ())


@pytest.mark.parametrize(
    ("lengths", "expected"),
    [
        ([20], [(1, 32)]),
        ([512] * 15, [(16, 512)]),
        # 16 rows would be too much padding.
        ([512] * 7, [(4, 512), (4, 512)]),
        ([30] * 300, [(256, 32), (64, 32)]),
        ([10] * 2_000, [(1024, 16), (1024, 16)]),
        # Few short texts go along with the long ones; many have a pass of their own.
        ([16, 60, 30] * 3, [(16, 64)]),
        ([20] * 100 + [500] + [20] * 156, [(4, 512), (256, 32)]),
    ],
    ids=str,
)
def test_texts_are_divided_among_few_passes_with_little_padding(
    lengths: list[int], expected: list[Shape]
) -> None:
    network = Zeros()
    tokens = CudaBackend.default_batch_tokens
    runner = OnCpu(network, batch_tokens=tokens, max_length=512)
    runner.warm_up()
    assert network.shapes[::2] == network.shapes[1::2] == runner.shapes
    assert (len(runner.shapes), runner.shapes[0]) == (30, (1024, 32))
    network.shapes.clear()
    assert runner.run(texts_of(lengths)).logits.shape == (len(lengths), 2)
    assert network.shapes == expected


@pytest.mark.parametrize(("make", "longest"), [(tiny_network, 32), (tiny_conv_network, 8)])
@given(
    lengths=st.lists(st.integers(1, 32), min_size=1, max_size=90),
    batch_tokens=st.sampled_from([16, 100, 1_000, 32_768]),
)
def test_graphs_answer_as_passes_without_padding_do_and_in_order(
    make: Callable[[], Network], longest: int, lengths: list[int], batch_tokens: int
) -> None:
    network = make().eval()
    plain = EagerRunner(network, OnDemand(lambda: network), device=CPU, pad_token_id=PAD)
    runner = OnCpu(network, batch_tokens=batch_tokens, max_length=longest)
    texts = texts_of([min(length, longest) for length in lengths])
    expected = [plain.run([text]).logits[0] for text in texts]
    np.testing.assert_allclose(runner.run(texts).logits, expected, atol=1e-5, rtol=0.0)


def test_each_shape_is_captured_once_before_the_first_request() -> None:
    runner = OnCpu(tiny_network())
    runner.warm_up()
    once = ["capture", "replay", "mark", "wait"]
    assert runner.queued == once * len(runner.shapes)
    runner.queued.clear()
    runner.warm_up()
    runner.run(texts_of([3, 30, 16]))
    assert "capture" not in runner.queued
    # Rows without a text are numbers too.
    assert runner.last.shape[0] == 4
    assert torch.isfinite(runner.last).all()

    # Without a warm-up, the first pass of a shape captures it.
    late = OnCpu(tiny_network())
    for _ in range(2):
        late.run(texts_of([3]))
    assert late.queued == [*once, *once[1:]]


def test_a_shape_that_cannot_be_captured_runs_all_the_same_and_says_so_once(
    caplog: pytest.LogCaptureFixture,
) -> None:
    network, texts = tiny_network(), texts_of([9] * 4)
    runner = OnCpu(network, most_rows=1)
    for _ in range(2):
        found = runner.run(texts).logits
    expected = OnCpu(network).run(texts).logits
    np.testing.assert_array_equal(found, expected)
    (record,) = caplog.records
    assert (record.levelname, vars(record)["rows"], vars(record)["columns"]) == ("WARNING", 4, 16)


def test_several_threads_share_graphs() -> None:
    network = tiny_network()
    runner = OnCpu(network)
    texts = [texts_of([1 + number % 32] * (1 + number % 5)) for number in range(60)]
    expected = [OnCpu(network).run(each).logits for each in texts]
    with ThreadPoolExecutor(4) as threads:
        found = list(threads.map(lambda each: runner.run(each).logits, texts * 3))
    for one, other in zip(found, expected * 3, strict=True):
        np.testing.assert_allclose(one, other, atol=1e-6, rtol=0.0)


def test_maps_and_head_masks_run_kernel_by_kernel() -> None:
    network = tiny_network()
    runner = OnCpu(network)
    plain = EagerRunner(network, OnDemand(lambda: network), device=CPU, pad_token_id=PAD)
    texts, chosen = texts_of([5, 3, 2]), Selection((0, 1), (0,))
    found, expected = runner.run(texts, chosen), plain.run(texts, chosen)
    np.testing.assert_array_equal(found.logits, expected.logits)
    np.testing.assert_array_equal(found.weights, expected.weights)
    texts[1] = replace(texts[1], head_mask=((0.0, 1.0), (1.0, 0.5)))
    np.testing.assert_array_equal(runner.run(texts).logits, plain.run(texts).logits)
    assert not runner.queued


def test_maps_are_computed_in_parts_that_fit_on_a_gpu(tmp_path: Path) -> None:
    checkpoint = open_checkpoint(tiny_checkpoint(tmp_path / "tiny"))
    backend = choose_backend(checkpoint, device="cpu", dtype="float32")
    predictor = load_on(checkpoint, backend)
    texts = ["good", "a film that is very slow", "bad plot", "superb", "it is"]
    options = [AttentionOptions(predictor.encode(text, with_tokens=True)) for text in texts]
    expected = predictor.explain_batch(options)
    backend.explained_tokens = 12
    with mock.patch.object(predictor._runner, "run", wraps=predictor._runner.run) as run:
        found = predictor.explain_batch(options)
    assert [len(call.args[0]) for call in run.call_args_list] == [1, 1, 3]
    for one, other in zip(found, expected, strict=True):
        np.testing.assert_allclose(one.attention, other.attention, atol=1e-6, rtol=0.0)
