"""Measures all that the model needs and is checked against: `make capacity`.

Writes one JSON file. `python -m benchmarks.capacity.page` puts its figures into the guide.
"""

import argparse
import datetime
import signal
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

import torch

from benchmarks.capacity import record
from benchmarks.capacity.check import DEADLINE, repeat
from benchmarks.capacity.quiet import busy_seconds
from benchmarks.capacity.record import MEASURED, Measured
from benchmarks.capacity.timing import time_passes
from benchmarks.errors import BenchmarkError
from benchmarks.machine import describe
from benchmarks.texts import SENTENCES, numbered
from model import open_checkpoint
from model.backends.device import choose_dtype, dtype_name
from model.backends.threads import choose_threads
from model.cli.arguments import LineParser, positive
from model.errors import ModelError

_FIRST_NUMBER = 200_000
_PASS_SECONDS = 0.15


def parser() -> argparse.ArgumentParser:
    """Builds the parser of the command line."""
    options = LineParser(
        prog="benchmarks.capacity.measuring", description=__doc__, allow_abbrev=False
    )
    options.add_argument(
        "--checkpoint", type=Path, default=Path("checkpoints/default"), metavar="FOLDER"
    )
    options.add_argument(
        "--dtypes",
        nargs="+",
        choices=("float32", "bfloat16", "int8"),
        default=["float32", "bfloat16", "int8"],
        metavar="DTYPE",
        help="that passes are timed in (default: float32 bfloat16 int8)",
    )
    options.add_argument(
        "--repetitions", type=positive, default=5, help="of everything (default: %(default)s)"
    )
    options.add_argument(
        "--seconds", type=positive, default=10, help="of each load (default: %(default)s)"
    )
    options.add_argument(
        "--patience",
        type=positive,
        default=60,
        metavar="SECONDS",
        help="to wait for a quiet machine before each load (default: %(default)s)",
    )
    options.add_argument(
        "--output", type=Path, default=MEASURED, metavar="FILE", help="(default: %(default)s)"
    )
    return options


def main(arguments: Sequence[str] | None = None) -> int:
    """Measures, and writes the record.

    Args:
        arguments: of the command line; those of the process if None.

    Returns:
        0 if it worked; 1 if not, with the reason on stderr; 130 if it was interrupted.
    """
    given = parser().parse_args(arguments)
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        record.write(_measure(given), given.output)
    except (BenchmarkError, ModelError, OSError) as error:
        return _refuse(str(error), 1)
    except KeyboardInterrupt:
        return _refuse("interrupted", 130)
    sys.stdout.write(f"{given.output} written\n")
    return 0


def _measure(given: argparse.Namespace) -> Measured:
    if not given.output.parent.is_dir():
        raise BenchmarkError(f"--output {given.output}: its folder does not exist")
    busy_seconds()  # where this is unknown, the reason comes before minutes of work
    opened = open_checkpoint(given.checkpoint)
    records = opened.manifest.precision
    dtype = dtype_name(choose_dtype("auto", torch.device("cpu"), records).dtype)
    kinds = dict.fromkeys([*given.dtypes, dtype])
    with tempfile.TemporaryDirectory() as folder:
        repetitions = repeat(
            given.checkpoint,
            dtype=dtype,
            repetitions=given.repetitions,
            seconds=given.seconds,
            patience=given.patience,
            folder=Path(folder),
            report=_report,
        )
    cells = {
        kind: tuple(
            time_passes(
                given.checkpoint,
                kind,
                seconds=_PASS_SECONDS,
                rounds=given.repetitions,
                patience=given.patience,
                report=_report,
            )
        )
        for kind in kinds
    }
    return Measured(
        machine=describe(given.checkpoint),
        date=datetime.datetime.now(datetime.UTC).date().isoformat(),
        cores=choose_threads(0),
        dtype=dtype,
        deadline=DEADLINE,
        lengths=tuple(
            len(opened.tokenizer.encode(numbered(text, _FIRST_NUMBER)).input_ids)
            for text in SENTENCES
        ),
        cells=cells,
        repetitions=tuple(repetitions),
    )


def _report(line: str) -> None:
    sys.stderr.write(f"{line}\n")
    sys.stderr.flush()


def _refuse(message: str, code: int) -> int:
    sys.stderr.write(f"benchmarks.capacity.measuring: {message}\n")
    return code


if __name__ == "__main__":
    sys.exit(main())
