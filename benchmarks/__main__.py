"""Measures the service and its peers in turns and prints the ratios: `make benchmark`."""

import argparse
import math
import signal
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

import torch

from benchmarks import wrk
from benchmarks.comparison import Bench
from benchmarks.errors import BenchmarkError
from benchmarks.loads import LOADS, Load, Open
from benchmarks.machine import describe
from benchmarks.measure import Timing
from benchmarks.servers import Program
from benchmarks.table import tables
from benchmarks.texts import Texts, own_texts, read_texts
from model.arguments import LineParser, positive
from model.backends.device import computes_bfloat16, computes_int8

OURS = Program("headlight", "service", explains=True)
OURS_INT8 = Program("headlight-int8", "service", ("--dtype", "int8"), explains=True)
PIPELINE = Program("pipeline", "benchmarks.peers.pipeline_app", explains=True)
# The service's default.
MAX_BATCH_TOKENS = 512
_LITSERVE = "benchmarks.peers.litserve_app"
_LITSERVE_BF16 = "litserve-bf16"


def programs(peers: Path) -> tuple[Program, ...]:
    """Lists all servers that can be measured, ours first.

    Args:
        peers: folder of the virtual environments of those peers that need their own.
    """
    litserve = peers / "litserve"
    return (
        OURS,
        OURS_INT8,
        PIPELINE,
        Program("litserve", _LITSERVE, environment=litserve),
        Program(_LITSERVE_BF16, _LITSERVE, ("--dtype", "bfloat16"), environment=litserve),
        Program("bentoml", "benchmarks.peers.bentoml_app", environment=peers / "bentoml"),
    )


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
        wrk.check_installed()
        chosen = chosen_programs(given.servers, given.peers)
        texts = _texts(given.sentences, given.reviews)
        loads = chosen_loads(given.loads)
        with tempfile.TemporaryDirectory() as folder:
            comparison = Bench(
                given.checkpoint,
                texts,
                folder=Path(folder),
                timing=Timing(given.repetitions, given.warm_up, given.seconds),
                max_batch_tokens=MAX_BATCH_TOKENS,
                report=_report,
            ).run(chosen, loads)
    except (BenchmarkError, OSError) as error:
        return _refuse(str(error), 1)
    except KeyboardInterrupt:
        return _refuse("interrupted", 130)
    print(f"Asked: {texts.origin}.\n{describe()}\n")
    print(tables(comparison, ours=OURS.name))
    return 0


def chosen_programs(names: Sequence[str], folder: Path) -> list[Program]:
    """Returns the service and the other servers that are asked for.

    Args:
        names: of the others; if empty, all that this processor computes fast.
        folder: of the virtual environments.

    Raises:
        BenchmarkError: one of them is not installed.
    """
    ours, *others = programs(folder)
    wanted = set(names) or {each.name for each in others} - _slow_here()
    missing = [
        each.name
        for each in others
        if each.name in wanted and each.environment and not Path(each.python).exists()
    ]
    if missing:
        raise BenchmarkError(
            f"{', '.join(missing)}: not installed in {folder}: run make benchmark, "
            "which does that, or choose others with --servers"
        )
    return [ours, *(each for each in others if each.name in wanted)]


def _slow_here() -> set[str]:
    """Names the servers whose number type this processor has no instructions for."""
    cpu = torch.device("cpu")
    native = {_LITSERVE_BF16: computes_bfloat16(cpu), OURS_INT8.name: computes_int8(cpu)}
    slow = {name for name, is_native in native.items() if not is_native}
    if slow:
        _report(f"left out, as this processor computes it slowly: {', '.join(sorted(slow))}")
    return slow


def _texts(sentences: Path | None, reviews: Path | None) -> Texts:
    if sentences is None and reviews is None:
        return own_texts()
    if sentences is None or reviews is None:
        raise BenchmarkError("--sentences and --reviews go together: give both or neither")
    return read_texts(sentences, reviews)


def chosen_loads(names: Sequence[str]) -> list[Load]:
    """Returns the named loads and those whose rates they need; all if none is named."""
    wanted = {*names, *(load.of for load in LOADS if isinstance(load, Open) and load.name in names)}
    return [load for load in LOADS if not names or load.name in wanted]


def _report(line: str) -> None:
    print(line, file=sys.stderr, flush=True)


def _refuse(message: str, code: int) -> int:
    print(f"benchmark: {message}", file=sys.stderr)
    return code


def parser() -> argparse.ArgumentParser:
    """Builds the parser of the command line."""
    options = LineParser(
        prog="benchmarks",
        description="Measures the service beside others on the same checkpoint, under "
        f"{len(LOADS)} loads, and prints the ratios.",
        allow_abbrev=False,
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
        choices=[each.name for each in programs(Path())][1:],
        help="a server to measure beside the service, may be repeated (default: all whose numbers "
        "this processor computes natively)",
    )
    options.add_argument(
        "--loads",
        action="append",
        default=[],
        choices=[load.name for load in LOADS],
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
