"""Measures the service on this machine: `make benchmark`, or `python -m benchmarks`."""

import argparse
import json
import math
import signal
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

from benchmarks import wrk
from benchmarks.comparison import Comparison, Timing
from benchmarks.errors import BenchmarkError
from benchmarks.lengths import measure_lengths
from benchmarks.limit import measure_device
from benchmarks.loads import SATURATION, Load, loads
from benchmarks.programs import OURS, choose_programs
from benchmarks.report import comparison_table, device_table, lengths_table, machine
from model.backends.device import choose_device
from model.cli.arguments import LineParser, positive
from model.errors import ModelError

_PEERS = Path("build/peers")
_WARM_UP_SECONDS = 2.0


def main(arguments: Sequence[str] | None = None) -> int:
    """Measures, prints one table and writes one JSON file; returns the status of the process."""
    options = parser().parse_args(arguments)
    # On SIGTERM it must stop its servers first, as it does on Ctrl-C.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        choose_device(options.device)
        with tempfile.TemporaryDirectory() as folder:
            results, table = _MEASURE[options.what](options, Path(folder))
        content = {"machine": machine(options.checkpoint, options.device), options.what: results}
        options.output.parent.mkdir(parents=True, exist_ok=True)
        options.output.write_text(json.dumps(content, indent=1) + "\n", encoding="utf-8")
    except (BenchmarkError, ModelError, OSError) as error:
        return _fail(str(error), 1)
    except KeyboardInterrupt:
        return _fail("interrupted", 130)
    print(f"{json.dumps(content['machine'])}\n\n{table}")
    return 0


def _servers(options: argparse.Namespace, folder: Path) -> tuple[object, str]:
    wrk.installed()
    programs = choose_programs(options.servers, _PEERS, options.device)
    chosen = _choose_loads(options.loads, options.device)
    timing = _timing(options)
    comparison = Comparison(options.checkpoint, folder=folder, timing=timing, report=_report)
    runs = comparison.run(programs, chosen)
    results = {name: [asdict(run) for run in each] for name, each in runs.items()}
    return results, comparison_table(runs, chosen, ours=OURS)


def _lengths(options: argparse.Namespace, folder: Path) -> tuple[object, str]:
    wrk.installed()
    results = list(
        measure_lengths(
            options.checkpoint,
            device=options.device,
            folder=folder,
            timing=_timing(options),
            report=_report,
        )
    )
    return [asdict(each) for each in results], lengths_table(results)


def _device(options: argparse.Namespace, _folder: Path) -> tuple[object, str]:
    seconds = options.seconds
    results = list(measure_device(options.checkpoint, device=options.device, seconds=seconds))
    return [asdict(each) for each in results], device_table(results)


_MEASURE = {"servers": _servers, "lengths": _lengths, "device": _device}


def _choose_loads(names: Sequence[str], device: str) -> list[Load]:
    """Returns the named loads and the one whose rate they need; all if none is named."""
    known = loads(device)
    for name in names:
        if name not in [load.name for load in known]:
            raise BenchmarkError(
                f"--loads {name!r}: not measured with --device {device}; choose from "
                f"{', '.join(repr(load.name) for load in known)}"
            )
    needed = [SATURATION.name for load in known if load.share and load.name in names]
    return [load for load in known if not names or load.name in [*names, *needed]]


def _timing(options: argparse.Namespace) -> Timing:
    return Timing(options.repetitions, min(_WARM_UP_SECONDS, options.seconds), options.seconds)


def _report(line: str) -> None:
    print(line, file=sys.stderr, flush=True)


def _fail(message: str, code: int) -> int:
    print(f"benchmark: {message}", file=sys.stderr)
    return code


def parser() -> argparse.ArgumentParser:
    """Builds the parser of the command line."""
    options = LineParser(
        prog="benchmarks",
        description="Measures the service on this machine, prints a table and writes all figures "
        "as JSON.",
        allow_abbrev=False,
    )
    options.add_argument(
        "what",
        nargs="?",
        choices=list(_MEASURE),
        default="servers",
        help="servers: beside other servers of the same checkpoint. lengths: sentences a second "
        "and core by length and number type. device: the model without a server, its speed and "
        "its difference from float32 (default: %(default)s)",
    )
    options.add_argument(
        "--device",
        choices=("cpu", "cuda"),
        default="cpu",
        help="where everything computes; cuda is the first GPU (default: %(default)s)",
    )
    options.add_argument(
        "--checkpoint",
        type=Path,
        default=Path("checkpoints/default"),
        metavar="FOLDER",
        help="folder to serve (default: %(default)s)",
    )
    options.add_argument(
        "--servers",
        action="append",
        default=[],
        metavar="NAME",
        help="a server to measure beside the service, repeatable (default: all whose number type "
        "this device computes natively)",
    )
    options.add_argument(
        "--loads",
        action="append",
        default=[],
        metavar="NAME",
        help="a load to measure, repeatable (default: all)",
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
        help="duration of each load (default: %(default)s)",
    )
    options.add_argument(
        "--output",
        type=Path,
        default=Path("build/benchmark.json"),
        metavar="FILE",
        help="JSON file of all figures (default: %(default)s)",
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
