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
from benchmarks.errors import BenchmarkError
from benchmarks.gpu import TEXTS, lines_rate, model_rate, used_bytes
from benchmarks.loads import LOADS
from benchmarks.report import comparison_table, machine
from benchmarks.servers import BY_HAND, choose_programs, gpu_programs
from model.backends.device import choose_device
from model.checkpoint.location import DEFAULT
from model.cli.arguments import LineParser, number, positive
from model.errors import ModelError


def main(arguments: Sequence[str] | None = None) -> int:
    """Measures, prints one table and writes one JSON file; returns the status of the process."""
    options = parser().parse_args(arguments)
    device = options.device if options.what == "gpu" else "cpu"
    # On SIGTERM it must stop its servers first, as it does on Ctrl-C.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        choose_device(device)
        with tempfile.TemporaryDirectory() as folder:
            results, table = _measure(options, Path(folder))
        content = {"machine": machine(device), options.what: results}
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


def _measure(options: argparse.Namespace, folder: Path) -> tuple[object, str]:
    on_gpu, where = options.what == "gpu", (options.checkpoint, options.device, options.seconds)
    comparison = Comparison(
        options.checkpoint,
        folder=folder,
        seconds=options.seconds,
        report=lambda line: print(line, file=sys.stderr, flush=True),
        gpu=used_bytes if on_gpu and options.device == "cuda" else int,
    )
    programs = gpu_programs(options.device) if on_gpu else choose_programs(options.servers)
    runs = comparison.run(programs, LOADS[options.what], 1 if on_gpu else options.repetitions)
    results: dict[str, object] = {
        name: [asdict(run) for run in each] for name, each in runs.items()
    }
    more = []
    if on_gpu:
        if BY_HAND not in runs:
            runs[f"{BY_HAND}: transformers is not installed"] = []
        rates = {
            f"the model, {TEXTS:,} texts at once: texts/s": model_rate(*where),
            "headlight-score: lines/s": lines_rate(*where, folder),
        }
        more = [[name, f"{rate:.0f}", ""] for name, rate in rates.items()]
        results.update(rates)
    return results, comparison_table(runs, LOADS[options.what], more)


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
        choices=list(LOADS),
        default="servers",
        help="servers: on this processor, beside other servers of the same checkpoint. gpu: on the "
        "first GPU, beside a server by hand (default: %(default)s)",
    )
    options.add_argument(
        "--device",
        choices=("cpu", "cuda"),
        default="cuda",
        help="where gpu computes; cpu to try it out (default: %(default)s)",
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
        "this processor computes natively)",
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
