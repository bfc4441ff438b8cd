"""Measures the model without a server: its speed, and how far its answers are from float32."""

import math
import statistics
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
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
from model.backends.kernels import KINDS, choose_set
from model.loading import load_on
from model.network.config import EncoderConfig
from model.tokenization.tokenizer import Encoding

# All sentences together may fill less than one pass of a GPU.
_PASSES_EACH = 8
_PARITY_TEXTS = 8
_WARM_UP_ROUNDS = 10
_ROUNDS = 50
# Of the loop of products, some 20 ms.
_PEAK_ROUNDS = 2_000_000


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


@dataclass(frozen=True, slots=True)
class ModelSpeed:
    """The workers of the service without a server: sentences a second.

    `peak` is how many operations a second the same cores manage in a loop of the instruction that
    multiplies, in registers only; `share` is the part of it that the products of the model use.
    Both are 0 where the kernels do not compute.
    """

    rate: float
    peak: float
    share: float


def measure_model(checkpoint: Path, device: str, dtype: str, seconds: float) -> ModelSpeed:
    """Measures the model, and what its processor could do at most, one after the other."""
    predictor, backend = _open(checkpoint, device, dtype)
    rate = _rate(predictor, backend, seconds)
    config = open_checkpoint(checkpoint).config
    chosen = choose_set(backend.dtype) if backend.name.startswith("kernels") else None
    if chosen is None or not isinstance(config, EncoderConfig):
        return ModelSpeed(rate, 0.0, 0.0)
    peak = _peak(partial(chosen.multiply, KINDS[backend.dtype]), backend.cores)
    lengths = [len(encoding.input_ids) for encoding in _sentences(predictor)]
    mean = statistics.mean(_operations(config, length) for length in lengths)
    return ModelSpeed(rate, peak, rate * mean / peak)


def _peak(multiply: Callable[[int], float], cores: int) -> float:
    """Returns the operations a second of the median round, on all cores at once."""

    def run(_: int) -> float:
        started = time.perf_counter()
        operations = multiply(_PEAK_ROUNDS)
        return operations / (time.perf_counter() - started)

    with ThreadPoolExecutor(cores) as workers:
        return statistics.median(sum(workers.map(run, range(cores))) for _ in range(_ROUNDS))


def _operations(config: EncoderConfig, tokens: int) -> int:
    """Counts the multiplications and additions of an encoder's products for a text.

    The last layer has one token, whose keys and values are not computed.
    """
    size, inner = config.hidden_size, config.intermediate_size
    of_token = 4 * size * size + 2 * size * inner
    of_attention = 2 * tokens * size
    layers = config.num_hidden_layers - 1
    last = of_token + 2 * config.num_attention_heads * tokens * size
    return 2 * (layers * tokens * (of_token + of_attention) + last)


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
    return load_on(checkpoint, backend), backend


def _sentences(predictor: Predictor) -> list[Encoding]:
    return [
        predictor.encode(numbered(text, number))
        for number, text in enumerate(SENTENCES, start=FIRST_NUMBER)
    ]


def _rate(predictor: Predictor, backend: Backend, seconds: float) -> float:
    encodings = _sentences(predictor)
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
