"""The model on a real GPU: right numbers, no waiting within a pass, steady memory."""

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
import torch

from model import AttentionOptions, Checkpoint, Predictor, open_checkpoint
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
    return load_on(checkpoint, choose_backend(checkpoint, device="cuda:0", dtype=dtype))


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


@pytest.fixture
def _no_waiting() -> Iterator[None]:
    torch.cuda.synchronize()
    torch.cuda.set_sync_debug_mode("error")
    try:
        yield
    finally:
        torch.cuda.set_sync_debug_mode("default")


def test_nothing_waits_for_the_gpu_within_a_pass(
    predictor: Predictor, request: pytest.FixtureRequest
) -> None:
    runner = predictor._runner
    assert isinstance(runner, CudaRunner)
    encodings = [predictor.encode(text) for text in TEXTS]
    predictor.warm_up()
    request.getfixturevalue("_no_waiting")  # not before: loading waits

    batch = runner.prepare(encodings)
    started = [
        runner.start(batch),
        runner.start(batch, Selection((0, 5), (1, 2))),
        runner.start(batch, Selection(tuple(range(6)), tuple(range(12)))),
    ]

    torch.cuda.set_sync_debug_mode("default")
    assert [runner.finish(each).logits.shape for each in started] == [(len(TEXTS), 3)] * 3


@pytest.mark.slow
def test_memory_is_steady_over_10_000_requests(predictor: Predictor) -> None:
    encodings = [predictor.encode(text) for text in TEXTS]

    def ask(times: int) -> None:
        for number in range(times):
            predictor.predict(encodings[: 1 + number % len(encodings)])
            if not number % 100:
                predictor.explain_batch([AttentionOptions(encoding) for encoding in encodings])

    ask(1_000)
    torch.cuda.synchronize()
    before = torch.cuda.memory_allocated(), torch.cuda.memory_reserved()
    ask(10_000)
    torch.cuda.synchronize()
    assert (torch.cuda.memory_allocated(), torch.cuda.memory_reserved()) == before
