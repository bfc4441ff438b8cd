"""Measures the model without a server: its speed, and how far its answers are from float32."""

import math
import statistics
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch

from benchmarks.passes import batches, texts_per_second
from benchmarks.texts import FIRST_NUMBER, SENTENCES, numbered
from model import AttentionOptions, Predictor, open_checkpoint
from model.backends.base import Backend
from model.backends.device import (
    choose_backend,
    choose_device,
    choose_dtype,
    computes_bfloat16,
    computes_int8,
)
from model.loading import load

# All sentences together may fill less than one pass of a GPU.
_PASSES_EACH = 8
_PARITY_TEXTS = 8
_WARM_UP_ROUNDS = 10
_ROUNDS = 50


@dataclass(frozen=True, slots=True)
class Speed:
    """The model in one number type: sentences a second in full passes, and seconds of one sentence.

    The differences are the largest from float32 on the processor.
    """

    dtype: str
    rate: float
    latency: float
    probability_difference: float
    weight_difference: float


def model_rate(checkpoint: Path, device: str, dtype: str, seconds: float) -> float:
    """Measures how many sentences a second the workers of the service compute, without a server."""
    return _rate(*_open(checkpoint, device, dtype), seconds)


def measure_device(checkpoint: Path, *, device: str, seconds: float) -> Iterator[Speed]:
    """Measures each number type that a device, `cpu` or `cuda`, computes natively."""
    exact, _ = _open(checkpoint, "cpu", "float32")
    for dtype in native_dtypes(device):
        predictor, backend = _open(checkpoint, device, dtype)
        rate = _rate(predictor, backend, seconds)
        yield Speed(dtype, rate, _latency(predictor), *_differences(predictor, exact))


def native_dtypes(device: str) -> list[str]:
    """Returns float32 and the narrower types that a device multiplies natively."""
    where = torch.device(device)
    native = {
        "float32": True,
        "bfloat16": computes_bfloat16(where),
        "float16": device == "cuda",
        "int8": computes_int8(where),
    }
    return [dtype for dtype, is_native in native.items() if is_native]


def _open(folder: Path, device: str, dtype: str) -> tuple[Predictor, Backend]:
    where = choose_device(device)
    checkpoint = open_checkpoint(folder)
    choice = choose_dtype(dtype, where, checkpoint.manifest.precision)
    backend = choose_backend(checkpoint, device=where, dtype=choice)
    return load(checkpoint, backend), backend


def _rate(predictor: Predictor, backend: Backend, seconds: float) -> float:
    encodings = [
        predictor.encode(numbered(text, number))
        for number, text in enumerate(SENTENCES, start=FIRST_NUMBER)
    ]
    tokens = sum(len(encoding.input_ids) for encoding in encodings)
    wanted = _PASSES_EACH * backend.workers * backend.default_batch_tokens
    passes = batches(
        encodings * math.ceil(wanted / tokens),
        backend.default_batch_tokens,
        length=lambda encoding: len(encoding.input_ids),
    )
    threads = max(1, backend.threads // backend.cores)
    with ThreadPoolExecutor(
        backend.workers, initializer=torch.set_num_threads, initargs=(threads,)
    ) as workers:
        return texts_per_second(predictor.predict, passes, workers=workers, seconds=seconds)


def _latency(predictor: Predictor) -> float:
    encoding = predictor.encode(SENTENCES[0])
    rounds = []
    for _ in range(_WARM_UP_ROUNDS + _ROUNDS):
        started = time.perf_counter()
        predictor.predict([encoding])
        rounds.append(time.perf_counter() - started)
    return statistics.median(rounds[_WARM_UP_ROUNDS:])


def _differences(predictor: Predictor, exact: Predictor) -> tuple[float, float]:
    """Returns the largest difference of a probability and of an attention weight."""
    short = SENTENCES[:_PARITY_TEXTS]
    long = [" ".join(SENTENCES[start : start + 14]) for start in range(_PARITY_TEXTS)]
    encodings = [exact.encode(text, with_tokens=True) for text in (*short, *long)]
    explained = predictor.explain_batch([AttentionOptions(encoding) for encoding in encodings])
    predicted = predictor.predict(encodings)
    probability = weight = 0.0
    for encoding, explanation, prediction in zip(encodings, explained, predicted, strict=True):
        expected = exact.explain(encoding)
        weight = max(weight, float(np.abs(explanation.attention - expected.attention).max()))
        for label, value in expected.prediction.probabilities.items():
            for other in (explanation.prediction, prediction):
                probability = max(probability, abs(other.probabilities[label] - value))
    return probability, weight
