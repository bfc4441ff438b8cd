"""Measures the model alone: the forward passes of the service in a loop, without a server."""

import argparse
import math
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import torch

from benchmarks.passes import Text, batches, texts_per_second
from benchmarks.texts import read_literals
from model import Encoding, open_checkpoint
from model.backends.device import choose_backend, choose_device, choose_dtype
from model.loading import load

# All texts together may fill less than one pass of a GPU.
_PASSES_EACH = 8


def main() -> None:
    """Prints the rate for a file of texts; encoding them is not counted.

    As in the service, each thread has passes of its own; here it never waits for one.
    """
    parser = argparse.ArgumentParser(description="The model alone, in a loop.")
    parser.add_argument("--checkpoint", type=Path, required=True)
    parser.add_argument("--dtype", choices=("auto", "int8"), default="auto")
    parser.add_argument("--device", choices=("auto", "cpu", "cuda"), default="auto")
    parser.add_argument("--max-batch-tokens", type=int, required=True)
    parser.add_argument("--seconds", type=float, required=True)
    parser.add_argument("texts", type=Path, help="file as the client reads it")
    given = parser.parse_args()
    device = choose_device(given.device)
    checkpoint = open_checkpoint(given.checkpoint)
    dtype = choose_dtype(given.dtype, device, checkpoint.manifest.precision)
    backend = choose_backend(checkpoint, device=device, dtype=dtype)
    predictor = load(checkpoint, backend)
    encodings = [predictor.encode(text) for text in read_literals(given.texts)]
    if device.type == "cuda":
        tokens = _PASSES_EACH * backend.workers * given.max_batch_tokens
        encodings = repeated(encodings, tokens, length=_length)
    passes = batches(encodings, given.max_batch_tokens, length=_length)
    with ThreadPoolExecutor(
        backend.workers, initializer=torch.set_num_threads, initargs=(1,)
    ) as lanes:
        rate = texts_per_second(predictor.predict, passes, lanes=lanes, seconds=given.seconds)
    sys.stdout.write(f"{rate}\n")


def repeated(texts: list[Text], tokens: int, *, length: Callable[[Text], int]) -> list[Text]:
    """Repeats texts until they have at least so many tokens.

    Args:
        texts: at least one.
        tokens: to reach, padding not counted.
        length: of a text, in tokens.
    """
    return texts * math.ceil(tokens / sum(map(length, texts)))


def _length(encoding: Encoding) -> int:
    return len(encoding.input_ids)


if __name__ == "__main__":
    main()
