"""Measures the model without a server: its speed by number type and by the length of texts."""

import statistics
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from model import Predictor, open_checkpoint
from model.backends.base import Backend, use_threads
from model.backends.device import (
    choose_backend,
    choose_device,
    choose_dtype,
    computes_bfloat16,
    computes_int8,
)
from model.loading import load_on

LENGTHS = (16, 64, 256, 512)
_PASSES_EACH = 8
_WARM_UP_SECONDS = 1.0
_WORD = "good"


@dataclass(frozen=True, slots=True)
class Speed:
    """Texts of one length in one number type: texts a second, and seconds of a single text."""

    dtype: str
    tokens: int
    rate: float
    latency: float


def measure_device(checkpoint: Path, *, device: str, seconds: float) -> Iterator[Speed]:
    """Measures each number type that a device, `cpu` or `cuda`, computes natively."""
    for dtype in native_dtypes(device):
        predictor, backend = _open(checkpoint, device, dtype)
        for tokens in LENGTHS:
            text = " ".join([_WORD] * (tokens - 2))  # with two special tokens
            rate = _rate(predictor, backend, text, seconds)
            yield Speed(dtype, tokens, rate, _latency(predictor, text, seconds))


def native_dtypes(device: str) -> list[str]:
    """Returns float32 and the narrower types that a device multiplies natively."""
    native = {
        "float32": True,
        "bfloat16": computes_bfloat16(device),
        "float16": device == "cuda",
        "int8": computes_int8(device),
    }
    return [dtype for dtype, is_native in native.items() if is_native]


def _open(folder: Path, device: str, dtype: str) -> tuple[Predictor, Backend]:
    where = choose_device(device)
    checkpoint = open_checkpoint(folder)
    choice = choose_dtype(dtype, where, checkpoint.manifest.precision)
    backend = choose_backend(checkpoint, device=where, dtype=choice)
    return load_on(checkpoint, backend), backend


def _rate(predictor: Predictor, backend: Backend, text: str, seconds: float) -> float:
    encoding = predictor.encode(text)
    count = max(1, backend.default_batch_tokens // len(encoding.input_ids))
    passes = [[encoding] * count] * (_PASSES_EACH * backend.workers)
    threads = max(1, backend.threads // backend.cores)
    with ThreadPoolExecutor(
        backend.workers, initializer=use_threads, initargs=(threads,)
    ) as workers:

        def all_passes() -> None:
            for _ in workers.map(predictor.predict, passes):
                pass

        return count * len(passes) / _median_seconds(all_passes, seconds)


def _latency(predictor: Predictor, text: str, seconds: float) -> float:
    encoding = predictor.encode(text)
    return _median_seconds(lambda: predictor.predict([encoding]), seconds)


def _median_seconds(run: Callable[[], object], seconds: float) -> float:
    """Returns the seconds of the median round, after a warm-up."""
    for duration in (min(_WARM_UP_SECONDS, seconds), seconds):
        rounds: list[float] = []
        end = time.perf_counter() + duration
        while not rounds or time.perf_counter() < end:
            started = time.perf_counter()
            run()
            rounds.append(time.perf_counter() - started)
    return statistics.median(rounds)
