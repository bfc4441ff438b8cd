"""`make benchmark`: measures the service and its peer in turns, and prints the ratios."""

import argparse
import math
import signal
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from benchmarks.comparison import LOADS, OURS, PEER, run
from benchmarks.errors import BenchmarkError
from benchmarks.table import table


def main(arguments: Sequence[str] | None = None) -> int:
    """Measures and prints the table.

    Args:
        arguments: of the command line; those of the process if None.

    Returns:
        0 if it worked; 1 if not, with the reason on stderr; 130 if it was interrupted.
    """
    given = parser().parse_args(arguments)
    # Told to end, it must end its servers first, as it does when interrupted from the keyboard.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        with tempfile.TemporaryDirectory() as folder:
            comparison = run(
                given.checkpoint,
                folder=Path(folder),
                repetitions=given.repetitions,
                warm_up=given.warm_up,
                seconds=given.seconds,
                report=_report,
            )
    except BenchmarkError as error:
        return _refuse(str(error), 1)
    except OSError as error:
        return _refuse(str(error), 1)
    except KeyboardInterrupt:
        return _refuse("interrupted", 130)
    print(table(comparison, ours=OURS.name, peer=PEER.name))
    return 0


def _report(line: str) -> None:
    print(line, file=sys.stderr, flush=True)


def _refuse(message: str, code: int) -> int:
    print(f"benchmark: {message}", file=sys.stderr)
    return code


def parser() -> argparse.ArgumentParser:
    """The options of the command line."""
    options = argparse.ArgumentParser(
        prog="benchmarks",
        description="Measures the service beside a FastAPI handler round transformers.pipeline "
        f"on the same checkpoint, under {len(LOADS)} loads, and prints the ratios.",
        allow_abbrev=False,
    )
    options.add_argument(
        "--checkpoint",
        type=Path,
        default=Path("checkpoints/default"),
        metavar="FOLDER",
        help="folder that both serve (default: %(default)s)",
    )
    options.add_argument(
        "--repetitions",
        type=_count,
        default=3,
        metavar="COUNT",
        help="how often each server is started and measured (default: %(default)s)",
    )
    options.add_argument(
        "--seconds",
        type=_positive,
        default=5.0,
        metavar="SECONDS",
        help="that each load is measured (default: %(default)s)",
    )
    options.add_argument(
        "--warm-up",
        type=_positive,
        default=2.0,
        metavar="SECONDS",
        help="of each load before it is measured (default: %(default)s)",
    )
    return options


def _count(text: str) -> int:
    if not (text.isdecimal() and int(text) > 0):
        raise argparse.ArgumentTypeError(f"must be a whole number from 1 on, got {text!r}")
    return int(text)


def _positive(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not 0 < value < math.inf:
        raise argparse.ArgumentTypeError(f"must be a number of seconds above 0, got {text!r}")
    return value


if __name__ == "__main__":
    sys.exit(main())
