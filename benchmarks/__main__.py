"""Measures the service and its peers in turns and prints the ratios: `make benchmark`.

`make gpu-benchmark` does it on a GPU.
"""

import argparse
import math
import signal
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from benchmarks import gpu, wrk
from benchmarks.choice import OURS, chosen_loads, chosen_programs, names_of, programs, report
from benchmarks.comparison import Bench
from benchmarks.errors import BenchmarkError
from benchmarks.loads import GPU_LOADS, LOADS
from benchmarks.machine import describe
from benchmarks.measure import Timing
from benchmarks.table import tables
from benchmarks.texts import Texts, own_texts, read_texts
from model.backends.eager import CudaBackend
from model.cli.arguments import LineParser, positive

# The service's default.
MAX_BATCH_TOKENS = 512
# A GPU answers more texts in the same time.
_GPU_TEXTS = 1_000_000


def main(arguments: Sequence[str] | None = None) -> int:
    """Measures and prints the tables.

    Args:
        arguments: of the command line; those of the process if None.

    Returns:
        0 if it worked; 1 if not, with the reason on stderr; 130 if it was interrupted.
    """
    given = parser().parse_args(arguments)
    # On SIGTERM it must stop its servers first, as it does on Ctrl-C.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        on_gpu = given.device == "cuda"
        if on_gpu:
            gpu.check()
        wrk.check_installed()
        chosen = chosen_programs(given.servers, given.peers, given.device)
        texts = _texts(given.sentences, given.reviews)
        loads = chosen_loads(given.loads, given.device)
        timing = Timing(given.repetitions, given.warm_up, given.seconds)
        busy = gpu.query() if on_gpu else ()
        if on_gpu and not busy:
            report("nvidia-smi is not installed: how busy the GPU is stays unknown")
        with tempfile.TemporaryDirectory() as folder:
            comparison = Bench(
                given.checkpoint,
                texts,
                folder=Path(folder),
                timing=replace(timing, texts=_GPU_TEXTS) if on_gpu else timing,
                max_batch_tokens=CudaBackend.default_batch_tokens if on_gpu else MAX_BATCH_TOKENS,
                report=report,
                busy=busy,
            ).run(chosen, loads)
    except (BenchmarkError, OSError) as error:
        return _refuse(str(error), 1)
    except KeyboardInterrupt:
        return _refuse("interrupted", 130)
    print(f"Asked: {texts.origin}.\n{describe(given.checkpoint, given.device)}\n")
    print(tables(comparison, ours=OURS.name))
    return 0


def _texts(sentences: Path | None, reviews: Path | None) -> Texts:
    if sentences is None and reviews is None:
        return own_texts()
    if sentences is None or reviews is None:
        raise BenchmarkError("--sentences and --reviews go together: give both or neither")
    return read_texts(sentences, reviews)


def _refuse(message: str, code: int) -> int:
    print(f"benchmark: {message}", file=sys.stderr)
    return code


def parser() -> argparse.ArgumentParser:
    """Builds the parser of the command line."""
    options = LineParser(
        prog="benchmarks",
        description="Measures the service beside others on the same checkpoint, under "
        f"{len(LOADS)} loads ({len(GPU_LOADS)} on a GPU), and prints the ratios.",
        allow_abbrev=False,
    )
    options.add_argument(
        "--device",
        choices=("cpu", "cuda"),
        default="cpu",
        help="where all compute; cuda is the first GPU (default: %(default)s)",
    )
    options.add_argument(
        "--checkpoint",
        type=Path,
        default=Path("checkpoints/default"),
        metavar="FOLDER",
        help="folder that all serve (default: %(default)s)",
    )
    options.add_argument(
        "--servers",
        action="append",
        default=[],
        choices=names_of([*programs(Path())[1:], *gpu.programs(Path())[1:]]),
        help="a server to measure beside the service, may be repeated (default: all whose numbers "
        "this device computes natively)",
    )
    options.add_argument(
        "--loads",
        action="append",
        default=[],
        choices=names_of([*LOADS, *GPU_LOADS]),
        help="a load to measure, may be repeated (default: all)",
    )
    options.add_argument(
        "--sentences",
        type=Path,
        metavar="FILE",
        help="TSV of sentences to ask, maybe gzipped (default: templates of our own)",
    )
    options.add_argument(
        "--reviews", type=Path, metavar="FILE", help="TSV of long texts, with --sentences"
    )
    options.add_argument(
        "--peers",
        type=Path,
        default=Path("build/peers"),
        metavar="FOLDER",
        help="virtual environments of the peers (default: %(default)s)",
    )
    options.add_argument(
        "--repetitions",
        type=positive,
        default=3,
        metavar="COUNT",
        help="how often each server is started and measured (default: %(default)s)",
    )
    options.add_argument(
        "--seconds",
        type=_seconds,
        default=5.0,
        metavar="SECONDS",
        help="that each load is measured (default: %(default)s)",
    )
    options.add_argument(
        "--warm-up",
        type=_seconds,
        default=2.0,
        metavar="SECONDS",
        help="of each load before it is measured (default: %(default)s)",
    )
    return options


def _seconds(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not 0 < value < math.inf:
        raise argparse.ArgumentTypeError(f"must be a number of seconds above 0, got {text!r}")
    return value


if __name__ == "__main__":
    sys.exit(main())
