"""Prints how long attributions take beside a prediction, and how large their gaps are.

Run as `make derivatives`, or `python -m benchmarks.derivatives`. Needs no data and no server.
"""

import argparse
import itertools
import statistics
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path

import torch

from benchmarks.texts import SENTENCES
from model import Encoding, Predictor, load_predictor, open_checkpoint
from model.backends.device import choose_dtype
from model.cli.arguments import LineParser, positive
from model.errors import ModelError
from model.explain.attribution import attribute

_LENGTHS = (20, 200, 512)
_NODES = (8, 16, 32, 64)
_GAP_TEXTS = 20
_PREDICTION = "prediction"


def main(arguments: Sequence[str] | None = None) -> int:
    """Prints a table of times and a table of gaps.

    Args:
        arguments: of the command line; those of the process if None.

    Returns:
        0; 1 if the checkpoint cannot be used, with the reason on stderr.
    """
    given = _parser().parse_args(arguments)
    torch.set_num_threads(given.threads)
    try:
        checkpoint = open_checkpoint(given.checkpoint)
        device = torch.device("cpu")
        dtype = choose_dtype("auto", device, checkpoint.manifest.precision)
        predictor = load_predictor(checkpoint, device=device, dtype=dtype.dtype)
    except ModelError as error:
        sys.stderr.write(f"benchmarks.derivatives: {error}\n")
        return 1
    info = predictor.info
    sys.stdout.write(
        f"checkpoint {info.version}, predictions in {info.dtype}, threads {given.threads}, "
        f"rounds {given.rounds}\n"
    )
    for line in itertools.chain(_times(predictor, given.rounds), _gaps(predictor)):
        sys.stdout.write(f"{line}\n")
        sys.stdout.flush()
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = LineParser(prog="benchmarks.derivatives", description=__doc__, allow_abbrev=False)
    parser.add_argument("--checkpoint", type=Path, default=Path("checkpoints/default"))
    parser.add_argument("--threads", type=positive, default=1, help="of a pass (default: 1)")
    parser.add_argument(
        "--rounds", type=positive, default=9, help="of each time, by turns (default: 9)"
    )
    return parser


def _times(predictor: Predictor, rounds: int) -> Iterator[str]:
    """Lines of a table: milliseconds, their range, and how many predictions that is."""
    yield "| tokens | what | ms, median (range) | predictions |"
    yield "| --- | --- | --- | --- |"
    lengths = dict.fromkeys(min(length, predictor.info.max_length) for length in _LENGTHS)
    for length in lengths:
        # Two tokens are special.
        text = predictor.encode("good " * (length - 2), with_tokens=True)
        found = _measure(_ways(predictor, text), rounds)
        one = statistics.median(found[_PREDICTION])
        for name, times in found.items():
            median = statistics.median(times)
            yield (
                f"| {len(text.input_ids)} | {name} | {1000 * median:.1f} "
                f"({1000 * min(times):.1f} to {1000 * max(times):.1f}) | {median / one:.1f} |"
            )


def _ways(predictor: Predictor, text: Encoding) -> Mapping[str, Callable[[], object]]:
    gradients = predictor.gradients
    return {
        _PREDICTION: lambda: predictor.predict([text]),
        "gradient x input": lambda: attribute(gradients, text, method="gradient_x_input"),
        "importance of heads": lambda: gradients.head_importance(text),
        "integrated gradients, 8 nodes": lambda: attribute(gradients, text, steps=8),
    }


def _measure(
    ways: Mapping[str, Callable[[], object]], rounds: int
) -> Mapping[str, Sequence[float]]:
    """Seconds of each round of each way, by turns; a round before warms up."""
    found: dict[str, list[float]] = {name: [] for name in ways}
    for _ in range(rounds + 1):
        for name, run in ways.items():
            started = time.perf_counter()
            run()
            found[name].append(time.perf_counter() - started)
    return {name: times[1:] for name, times in found.items()}


def _gaps(predictor: Predictor) -> Iterator[str]:
    """Lines of a table: the gaps of integrated gradients by their nodes."""
    yield ""
    yield f"| nodes | gap, median of {_GAP_TEXTS} sentences | largest |"
    yield "| --- | --- | --- |"
    texts = [predictor.encode(text, with_tokens=True) for text in SENTENCES[:_GAP_TEXTS]]
    for nodes in _NODES:
        gaps = [abs(attribute(predictor.gradients, text, steps=nodes).gap) for text in texts]
        yield f"| {nodes} | {statistics.median(gaps):.2g} | {max(gaps):.2g} |"


if __name__ == "__main__":
    sys.exit(main())
