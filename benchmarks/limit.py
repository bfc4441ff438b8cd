"""Measures the model alone: the forward passes of the service in a loop, without a server."""

import argparse
import json
import statistics
import sys
import time
from collections.abc import Sequence
from concurrent.futures import Executor, ThreadPoolExecutor
from pathlib import Path

import torch

from benchmarks.texts import numbered
from model import Encoding, Predictor, open_checkpoint
from model.backends.device import choose_backend, choose_device, choose_dtype
from model.loading import load

_WARM_UP_SECONDS = 1.0
_FIRST_NUMBER = 200_000


def batches(encodings: Sequence[Encoding], max_batch_tokens: int) -> list[list[Encoding]]:
    """Texts sorted by length, in batches within the budget of the service."""
    found: list[list[Encoding]] = []
    for encoding in sorted(encodings, key=lambda each: len(each.input_ids)):
        longest = len(encoding.input_ids)
        if found and longest * (len(found[-1]) + 1) <= max_batch_tokens:
            found[-1].append(encoding)
        else:
            found.append([encoding])
    return found


def texts_per_second(
    predictor: Predictor,
    texts: Sequence[str],
    *,
    max_batch_tokens: int,
    threads: int,
    seconds: float,
) -> float:
    """How many texts the forward passes of a loop classify; reading them is not counted.

    As in the service, each thread has passes of its own; here it never waits for one.

    Args:
        predictor: the loaded model.
        texts: that are classified over and over again.
        max_batch_tokens: of a pass, padding counted.
        threads: passes at once.
        seconds: how long.
    """
    passes = batches([predictor.encode(text) for text in texts], max_batch_tokens)
    with ThreadPoolExecutor(threads, initializer=torch.set_num_threads, initargs=(1,)) as lanes:
        end = time.perf_counter() + _WARM_UP_SECONDS
        while time.perf_counter() < end:
            _round(predictor, passes, lanes)
        rounds: list[float] = []
        end = time.perf_counter() + seconds
        while not rounds or time.perf_counter() < end:
            started = time.perf_counter()
            _round(predictor, passes, lanes)
            rounds.append(time.perf_counter() - started)
    return len(texts) / statistics.median(rounds)


def _round(predictor: Predictor, passes: Sequence[list[Encoding]], lanes: Executor) -> None:
    for _ in lanes.map(predictor.predict, reversed(passes)):  # the longest first, so none is last
        pass


def main() -> None:
    """Prints the rate for a file of texts."""
    parser = argparse.ArgumentParser(description="The model alone, in a loop.")
    parser.add_argument("--checkpoint", type=Path, required=True)
    parser.add_argument("--max-batch-tokens", type=int, required=True)
    parser.add_argument("--seconds", type=float, required=True)
    parser.add_argument("texts", type=Path, help="file as the client reads it")
    given = parser.parse_args()
    device = choose_device("auto")
    checkpoint = open_checkpoint(given.checkpoint)
    backend = choose_backend(checkpoint, device=device, dtype=choose_dtype("auto", device))
    predictor = load(checkpoint, backend)
    rate = texts_per_second(
        predictor,
        _texts(given.texts),
        max_batch_tokens=given.max_batch_tokens,
        threads=backend.workers,
        seconds=given.seconds,
    )
    sys.stdout.write(f"{rate}\n")


def _texts(path: Path) -> list[str]:
    """As the client sends them, the number at the end included."""
    lines = path.read_text(encoding="utf-8").splitlines()
    return [
        numbered(json.loads(line + '"'), number)
        for number, line in enumerate(lines, start=_FIRST_NUMBER)
    ]


if __name__ == "__main__":
    main()
