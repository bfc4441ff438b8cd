"""The model on a real GPU: right numbers, no waiting within a pass, steady memory."""

import gc
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

import numpy as np
import pytest
import torch
from scipy.special import softmax

from model import AttentionOptions, Checkpoint, Encoding, Predictor, open_checkpoint
from model.backends.base import Selection
from model.backends.cuda import CudaRunner
from model.backends.device import choose_backend
from model.loading import load_on

pytestmark = [
    pytest.mark.cuda,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device"),
]

DEFAULT = Path(__file__).parents[2] / "checkpoints" / "default"
# The largest difference from float32 on the processor: of a probability, and of a weight.
BOUNDS = {"float32": (1e-5, 1e-5), "bfloat16": (0.02, 0.05), "float16": (0.005, 0.01)}
TEXTS = [
    "What a wonderful film.",
    "The plot drags, but the cast is superb.",
    "no",
    "I would not go there again, although the waiter was friendly. " * 12,
    "word " * 600,
]


@pytest.fixture(scope="module")
def checkpoint() -> Checkpoint:
    return open_checkpoint(DEFAULT)


@pytest.fixture(scope="module")
def exact(checkpoint: Checkpoint) -> Predictor:
    """Float32 on the processor."""
    return load_on(checkpoint, choose_backend(checkpoint, device="cpu", dtype="float32"))


@pytest.fixture(params=list(BOUNDS))
def dtype(request: pytest.FixtureRequest) -> str:
    kind: str = request.param
    if kind == "bfloat16" and torch.cuda.get_device_capability() < (8, 0):
        pytest.skip("this GPU has no bfloat16")
    return kind


@pytest.fixture
def predictor(checkpoint: Checkpoint, dtype: str) -> Predictor:
    gc.collect()  # graphs of the last one
    torch.cuda.empty_cache()
    return load_on(checkpoint, choose_backend(checkpoint, device="cuda:0", dtype=dtype))


def runner_of(predictor: Predictor) -> CudaRunner:
    runner = predictor._runner
    assert isinstance(runner, CudaRunner)
    return runner


def texts_of(count: int, longest: int) -> list[Encoding]:
    """Texts of random words, the last one the longest."""
    draw = np.random.default_rng(count)
    lengths = [*draw.integers(3, longest + 1, count - 1), min(longest, 512)]
    return [
        Encoding([101, *draw.integers(1000, 20_000, length - 2).tolist(), 102], truncated=False)
        for length in lengths
    ]


def test_probabilities_and_every_map_are_those_of_the_processor(
    predictor: Predictor, exact: Predictor, dtype: str
) -> None:
    probability, weight = BOUNDS[dtype]
    encodings = [exact.encode(text, with_tokens=True) for text in TEXTS]
    explained = predictor.explain_batch([AttentionOptions(encoding) for encoding in encodings])
    for encoding, found, fused in zip(
        encodings, explained, predictor.predict(encodings), strict=True
    ):
        expected = exact.explain(encoding)
        values = np.array(list(expected.prediction.probabilities.values()))
        for said in (found.prediction, fused, predictor.predict([encoding])[0]):
            np.testing.assert_allclose(
                list(said.probabilities.values()), values, atol=probability, rtol=0.0
            )
        assert found.attention.dtype == np.float32
        np.testing.assert_allclose(found.attention, expected.attention, atol=weight, rtol=0.0)
        np.testing.assert_allclose(found.attention.sum(-1), 1.0, atol=1e-5, rtol=0.0)


def test_gradients_are_those_of_the_processor(predictor: Predictor, exact: Predictor) -> None:
    encoding = exact.encode(TEXTS[1], with_tokens=True)
    found, expected = (
        each.gradients.head_importance(encoding).importance for each in (predictor, exact)
    )
    np.testing.assert_allclose(found, expected, atol=1e-4, rtol=1e-3)


def test_nothing_waits_for_the_gpu_within_a_pass(predictor: Predictor) -> None:
    runner = runner_of(predictor)
    encodings = [predictor.encode(text) for text in TEXTS]
    predictor.warm_up()
    torch.cuda.synchronize()
    lengths = np.array([len(encoding.input_ids) for encoding in encodings])
    torch.cuda.set_sync_debug_mode("error")
    try:
        batch = runner.prepare(encodings)
        computed = [
            runner.compute(batch),
            runner.compute(batch, Selection((0, 5), (1, 2))),
            runner.compute(batch, Selection(tuple(range(6)), tuple(range(12)))),
        ]
        replayed = [runner._replay(shape, encodings, lengths) for shape in [(16, 512), (64, 512)]]
    finally:
        torch.cuda.set_sync_debug_mode("default")
    assert [logits.shape for logits, _ in computed] == [(len(TEXTS), 3)] * 3
    for wait, logits in replayed:
        wait()
        assert np.isfinite(logits).all()


def test_every_shape_is_a_graph_before_the_first_request(
    predictor: Predictor, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Then no first request builds anything, and all fits into 2 GB beside the context of CUDA."""
    runner = runner_of(predictor)
    predictor.warm_up()
    assert not caplog.records
    assert set(runner._replays) == set(runner.shapes)
    assert len(runner.shapes) == 30

    monkeypatch.setattr(CudaRunner, "capture", lambda *_: pytest.fail("a request waits"))
    encoding = predictor.encode(TEXTS[3], with_tokens=True)
    slowest = 0.0
    first: list[Callable[[], object]] = [
        *(partial(predictor.predict, texts_of(1, length)) for length in range(5, 512, 23)),
        *(partial(predictor.predict, texts_of(count, 2 * count)) for count in range(3, 60, 6)),
        lambda: predictor.explain(encoding),
        lambda: predictor.gradients.head_importance(encoding),
    ]
    for work in first:
        began = time.perf_counter()
        work()
        slowest = max(slowest, time.perf_counter() - began)
    assert slowest < 0.1
    assert torch.cuda.memory_reserved() < 1.5 * 2**30


def test_graphs_answer_as_kernels_one_by_one_do(
    predictor: Predictor, exact: Predictor, dtype: str
) -> None:
    runner, bound = runner_of(predictor), BOUNDS[dtype][0]
    for texts in [texts_of(1, 9), texts_of(3, 17), texts_of(70, 40), texts_of(300, 100)]:
        found = softmax(runner.run(texts).logits, axis=-1)
        plain = softmax(runner.compute(runner.prepare(texts))[0].cpu().numpy(), axis=-1)
        np.testing.assert_allclose(found, plain, atol=bound, rtol=0.0)
        some = texts[::30]
        expected = softmax(exact._runner.run(some).logits, axis=-1)
        np.testing.assert_allclose(found[::30], expected, atol=bound, rtol=0.0)


def test_memory_is_steady_over_1_000_replays(predictor: Predictor) -> None:
    predictor.warm_up()
    passes = [texts_of(1 + number % 300, 5 + number % 60) for number in range(50)]
    options = [AttentionOptions(predictor.encode(text, with_tokens=True)) for text in TEXTS[:3]]

    def ask(rounds: int) -> tuple[int, int]:
        for _ in range(rounds):
            for texts in passes:
                predictor.predict(texts)
            predictor.explain_batch(options)
        torch.cuda.synchronize()
        return torch.cuda.memory_allocated(), torch.cuda.memory_reserved()

    assert ask(1) == ask(20)
