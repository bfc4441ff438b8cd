"""Measures the engine of a peer alone: its passes in a loop, as `benchmarks.limit` does ours."""

import argparse
import sys
from concurrent.futures import ThreadPoolExecutor
from importlib import import_module
from pathlib import Path
from queue import SimpleQueue

from benchmarks.passes import batches, texts_per_second
from benchmarks.peers.batching import Engine, padded
from benchmarks.peers.batching_app import cores, open_tokenizer
from benchmarks.texts import read_literals


def rate(engine: Engine, texts: list[list[int]], *, max_batch_tokens: int, seconds: float) -> float:
    """Measures how many texts a second the lanes of an engine compute.

    Args:
        engine: that computes.
        texts: the ids of each.
        max_batch_tokens: of a pass, padding counted.
        seconds: how long.
    """
    idle: SimpleQueue[int] = SimpleQueue()
    for lane in range(engine.lanes):
        idle.put(lane)

    def run(taken: list[list[int]]) -> None:
        lane = idle.get()
        engine.run(*padded(taken), lane=lane, alone=False)
        idle.put(lane)

    passes = batches(texts, max_batch_tokens, length=len)
    with ThreadPoolExecutor(engine.lanes) as lanes:
        return texts_per_second(run, passes, lanes=lanes, seconds=seconds)


def main() -> None:
    """Prints the rate for a file of texts; encoding them is not counted."""
    parser = argparse.ArgumentParser(description="The engine of a peer alone, in a loop.")
    parser.add_argument("--checkpoint", type=Path, required=True)
    parser.add_argument("--engine", choices=("openvino", "onnxruntime"), required=True)
    parser.add_argument("--precision", choices=("bf16", "int8"), default="int8")
    parser.add_argument("--max-batch-tokens", type=int, required=True)
    parser.add_argument("--seconds", type=float, required=True)
    parser.add_argument("texts", type=Path, help="file as the client reads it")
    given = parser.parse_args()
    given.lanes = cores()
    # Each environment has one of the two engines.
    app = import_module(f"benchmarks.peers.{given.engine}_app")
    tokenizer = open_tokenizer(given.checkpoint)
    ids = [each.ids for each in tokenizer.encode_batch_fast(read_literals(given.texts))]
    found = rate(
        app.open_engine(given.checkpoint, given),
        ids,
        max_batch_tokens=given.max_batch_tokens,
        seconds=given.seconds,
    )
    sys.stdout.write(f"{found}\n")


if __name__ == "__main__":
    main()
