"""Measures the service on this machine: `make benchmark`, or `python -m benchmarks`."""

import argparse
import json
import signal
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

from benchmarks.comparison import Comparison
from benchmarks.device import measure_device
from benchmarks.errors import BenchmarkError
from benchmarks.loads import find_wrk, loads
from benchmarks.report import comparison_table, device_table, machine
from benchmarks.servers import choose_programs
from model.backends.device import choose_device
from model.checkpoint.location import DEFAULT
from model.cli.arguments import LineParser, number, positive
from model.errors import ModelError


def main(arguments: Sequence[str] | None = None) -> int:
    """Measures, prints one table and writes one JSON file; returns the status of the process."""
    options = parser().parse_args(arguments)
    # On SIGTERM it must stop its servers first, as it does on Ctrl-C.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        choose_device(options.device)
        with tempfile.TemporaryDirectory() as folder:
            results, table = _MEASURE[options.what](options, Path(folder))
        content = {"machine": machine(options.device), options.what: results}
        options.output.parent.mkdir(parents=True, exist_ok=True)
        options.output.write_text(json.dumps(content, indent=1) + "\n", encoding="utf-8")
    except (BenchmarkError, ModelError, OSError) as error:
        print(f"benchmark: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("benchmark: interrupted", file=sys.stderr)
        return 130
    print(f"{json.dumps(content['machine'])}\n\n{table}")
    return 0


def _servers(options: argparse.Namespace, folder: Path) -> tuple[object, str]:
    find_wrk()
    programs = choose_programs(options.servers, options.device)
    comparison = Comparison(
        options.checkpoint,
        folder=folder,
        seconds=options.seconds,
        report=lambda line: print(line, file=sys.stderr, flush=True),
    )
    chosen = loads(options.device)
    runs = comparison.run(programs, chosen, options.repetitions)
    results = {name: [asdict(run) for run in each] for name, each in runs.items()}
    return results, comparison_table(runs, chosen)


def _device(options: argparse.Namespace, _folder: Path) -> tuple[object, str]:
    speeds = measure_device(options.checkpoint, device=options.device, seconds=options.seconds)
    results = list(speeds)
    return [asdict(each) for each in results], device_table(results)


_MEASURE = {"servers": _servers, "device": _device}


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
        help="servers: beside other servers of the same checkpoint. device: the model without a "
        "server, by number type and length of the texts (default: %(default)s)",
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
        default=DEFAULT,
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
        "--repetitions",
        type=positive,
        default=3,
        metavar="COUNT",
        help="how often each server is started and measured (default: %(default)s)",
    )
    options.add_argument(
        "--seconds",
        type=number,
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


if __name__ == "__main__":
    sys.exit(main())
