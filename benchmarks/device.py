"""Prints the speed of a device, and how far its answers are from float32 on the processor.

Run as `make gpu`, or `python -m benchmarks.device --device cuda`. Needs no data and no server.
"""

import argparse
import statistics
import sys
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import torch

from benchmarks.passes import batches
from benchmarks.texts import own_texts
from model import AttentionOptions, Checkpoint, Encoding, Predictor, open_checkpoint
from model.backends.base import Backend
from model.backends.device import choose_backend, choose_device, choose_dtype, dtype_name
from model.cli.arguments import LineParser, positive
from model.errors import ModelError
from model.loading import load

_PARITY_TEXTS = 16
_ROUNDS = 5


def main(arguments: Sequence[str] | None = None) -> int:
    """Prints a line for each type of the device.

    Args:
        arguments: of the command line; those of the process if None.

    Returns:
        0; 1 if the device or the checkpoint cannot be used, with the reason on stderr.
    """
    given = _parser().parse_args(arguments)
    try:
        device = choose_device(given.device)
        checkpoint = open_checkpoint(given.checkpoint)
        for line in _report(checkpoint, device, given.texts, given.max_batch_tokens):
            sys.stdout.write(f"{line}\n")
            sys.stdout.flush()
    except ModelError as error:
        sys.stderr.write(f"benchmarks.device: {error}\n")
        return 1
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = LineParser(prog="benchmarks.device", description=__doc__, allow_abbrev=False)
    parser.add_argument("--device", default="auto", help="auto, cpu, cuda or cuda:N")
    parser.add_argument("--checkpoint", type=Path, default=Path("checkpoints/default"))
    parser.add_argument(
        "--texts", type=positive, default=20_000, help="sentences of a round (default: 20000)"
    )
    parser.add_argument(
        "--max-batch-tokens", type=positive, help="of a pass (default: as the device says)"
    )
    return parser


def _report(
    checkpoint: Checkpoint, device: torch.device, count: int, max_batch_tokens: int | None
) -> Iterator[str]:
    name = torch.cuda.get_device_name(device) if device.type == "cuda" else "processor"
    yield f"{device}: {name}, torch {torch.__version__}, checkpoint {checkpoint.version}"
    exact_backend = choose_backend(checkpoint, device=torch.device("cpu"), dtype=torch.float32)
    exact = load(checkpoint, exact_backend)
    sentences, reviews = own_texts().sentences, own_texts().reviews
    compared = [*sentences[: _PARITY_TEXTS // 2], *reviews[: _PARITY_TEXTS // 2]]
    texts = [sentences[number % len(sentences)] for number in range(count)]
    for dtype in _dtypes(device, checkpoint):
        backend = choose_backend(checkpoint, device=device, dtype=dtype)
        predictor = load(checkpoint, backend)
        probability, weight = _parity(predictor, exact, compared)
        tokens = max_batch_tokens or backend.default_batch_tokens
        rates = _rates(predictor, backend, texts, tokens)
        yield (
            f"{dtype_name(dtype)}: {statistics.median(rates):,.0f} sentences/s "
            f"({min(rates):,.0f} to {max(rates):,.0f}) at {tokens} tokens a pass; "
            f"one sentence {_latency(predictor, texts[0]):.2f} ms; largest difference from "
            f"float32 on the processor: probabilities {probability:.1e}, weights {weight:.1e}"
        )


def _dtypes(device: torch.device, checkpoint: Checkpoint) -> list[torch.dtype]:
    chosen = choose_dtype("auto", device, checkpoint.manifest.precision)
    dtypes = [torch.float32, chosen.dtype]
    if device.type == "cuda":
        dtypes.append(torch.float16)
    return list(dict.fromkeys(dtypes))


def _parity(predictor: Predictor, exact: Predictor, texts: Sequence[str]) -> tuple[float, float]:
    """The largest differences of any probability and of any weight of any map."""
    probability = weight = 0.0
    encodings = [exact.encode(text, with_tokens=True) for text in texts]
    together = predictor.explain_batch([AttentionOptions(encoding) for encoding in encodings])
    for encoding, found, fused in zip(
        encodings, together, predictor.predict(encodings), strict=True
    ):
        expected = exact.explain(encoding)
        weight = max(weight, float(np.abs(found.attention - expected.attention).max()))
        for label, value in expected.prediction.probabilities.items():
            for said in (found.prediction, fused):
                probability = max(probability, abs(said.probabilities[label] - value))
    return probability, weight


def _rates(
    predictor: Predictor, backend: Backend, texts: Sequence[str], max_batch_tokens: int
) -> list[float]:
    """Sentences a second of each round, tokenizing not counted, with the workers of the service."""
    passes = batches(
        [predictor.encode(text) for text in texts],
        max_batch_tokens,
        length=lambda encoding: len(encoding.input_ids),
    )
    threads = max(1, backend.threads // backend.cores)
    rates = []
    with ThreadPoolExecutor(
        backend.workers, initializer=torch.set_num_threads, initargs=(threads,)
    ) as workers:
        for _ in range(_ROUNDS + 1):
            started = time.perf_counter()
            for _answers in workers.map(predictor.predict, reversed(passes)):
                pass
            rates.append(len(texts) / (time.perf_counter() - started))
    return rates[1:]  # the first warms up


def _latency(predictor: Predictor, text: str) -> float:
    """Milliseconds of one sentence, from its encoding to its prediction; the median."""
    encoding: Encoding = predictor.encode(text)
    seconds = []
    for _ in range(60):
        started = time.perf_counter()
        predictor.predict([encoding])
        seconds.append(time.perf_counter() - started)
    return 1000 * statistics.median(seconds[10:])


if __name__ == "__main__":
    sys.exit(main())
