"""Prints how fast `headlight-score` is from a local file, beside the model alone.

Both score the same texts in the same passes, by turns, with workers of one thread on cores of their
own. The model alone has all texts in memory, and writes nothing.
"""

import argparse
import csv
import os
import statistics
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from benchmarks.errors import BenchmarkError
from benchmarks.machine import describe
from benchmarks.scoring.measuring import Alone, Scored, Setup, measure_alone, score
from benchmarks.servers import ROOT
from benchmarks.table import columns
from benchmarks.texts import numbered, own_texts
from model.cli.arguments import LineParser, positive
from model.errors import ModelError


def main(arguments: Sequence[str] | None = None) -> int:
    """Measures, and prints a table and the ratios.

    Args:
        arguments: of the command line; those of the process if None.

    Returns:
        The status: 0, or 1 with the reason on stderr.
    """
    given = _parser().parse_args(arguments)
    cores = sorted(os.sched_getaffinity(0))
    counts = [1, given.workers] if given.workers > 1 else [1]
    if given.workers > len(cores):
        return _refuse(f"--workers {given.workers}: there are {len(cores)} cores; give fewer")
    with tempfile.TemporaryDirectory() as folder:
        inputs = given.input
        if inputs is None:
            inputs = Path(folder) / "rows.csv"
            _write_rows(inputs, given.rows)
        setup = Setup(inputs, given.checkpoint, given.dtype, given.part_bytes, cores)
        found: dict[int, list[tuple[Scored, Alone]]] = {count: [] for count in counts}
        try:
            print(describe(given.checkpoint), flush=True)
            for number in range(given.repetitions):
                for count in counts:
                    output = Path(folder) / f"out-{number}-{count}"
                    scored = score(setup, count, output)
                    alone = measure_alone(setup, count, output / "manifest.json")
                    found[count].append((scored, alone))
        except (BenchmarkError, ModelError) as error:
            return _refuse(str(error))
    print(_report(found))
    return 0


def _write_rows(path: Path, count: int) -> None:
    """Writes a table of made sentences, each of them once."""
    sentences = own_texts().sentences
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["id", "text"])
        for number in range(count):
            text = sentences[number * 7 % len(sentences)]
            writer.writerow([number, numbered(text, number)])


def _report(found: dict[int, list[tuple[Scored, Alone]]]) -> str:
    lines = []
    ratios = []
    for count, pairs in found.items():
        rates = [scored.rate for scored, _ in pairs]
        whole = [scored.rows / scored.seconds for scored, _ in pairs]
        alone = [each.rate for _, each in pairs]
        passes = [each.passes for _, each in pairs]
        for name, figures in (
            ("headlight-score", rates),
            ("with its start and plan", whole),
            ("the model alone", alone),
            ("its passes alone", passes),
        ):
            lines.append((str(count), name, f"{statistics.median(figures):,.0f}", _range(figures)))
        own = [rate / other for rate, other in zip(rates, alone, strict=True)]
        bare = [rate / other for rate, other in zip(rates, passes, strict=True)]
        ratios.append(
            f"{count} workers: {statistics.median(own):.3f} ({_range(own)}) of the model alone, "
            f"{statistics.median(bare):.3f} ({_range(bare)}) of its passes alone"
        )
    one, *more = found.values()
    for pairs in more:
        times = [
            scored.rate / first.rate for (scored, _), (first, _) in zip(pairs, one, strict=True)
        ]
        ratios.append(
            f"{max(found)} workers: {statistics.median(times):.2f} ({_range(times)}) times the "
            "rows of one"
        )
    table = columns(("workers", "what", "rows/s", "range"), lines)
    return "\n".join([table, "", *ratios])


def _range(figures: Sequence[float]) -> str:
    low, high = min(figures), max(figures)
    return f"{low:.3f} to {high:.3f}" if high < 10 else f"{low:,.0f} to {high:,.0f}"


def _parser() -> argparse.ArgumentParser:
    parser = LineParser(
        prog="python -m benchmarks.scoring",
        description="Measures headlight-score beside the model alone.",
    )
    parser.add_argument("--input", type=Path, help="file to score (default: made sentences)")
    parser.add_argument("--rows", type=positive, default=40_000, help="made (default: %(default)s)")
    parser.add_argument(
        "--workers", type=positive, default=2, help="beside one (default: %(default)s)"
    )
    parser.add_argument("--repetitions", type=positive, default=5, help="(default: %(default)s)")
    parser.add_argument(
        "--part-bytes", type=positive, default=128 * 1024, help="(default: %(default)s)"
    )
    parser.add_argument("--dtype", default="auto", help="of the model (default: %(default)s)")
    parser.add_argument(
        "--checkpoint", type=Path, default=ROOT / "checkpoints" / "default", help="to score with"
    )
    return parser


def _refuse(message: str) -> int:
    print(f"benchmarks.scoring: {message}", file=sys.stderr)
    return 1


if __name__ == "__main__":
    sys.exit(main())
