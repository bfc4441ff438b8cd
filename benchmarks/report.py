"""Draws the results as one Markdown table, and describes the machine."""

import os
import platform
import re
import statistics
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path

import torch

from benchmarks.comparison import Run
from benchmarks.gpu import versions
from benchmarks.loads import Load
from benchmarks.servers import OURS

_PROCESSOR = re.compile(r"^model name\s*: (.+)$", re.MULTILINE)
_MEGABYTE = 1_000_000


def machine(device: str) -> dict[str, object]:
    """Describes what the figures hold for: processor, GPU, versions."""
    cpuinfo = Path("/proc/cpuinfo")
    processor = _PROCESSOR.search(cpuinfo.read_text("utf-8") if cpuinfo.exists() else "")
    return {
        "cores": len(os.sched_getaffinity(0)),
        "processor": processor[1] if processor else platform.machine(),
        "python": platform.python_version(),
        "torch": torch.__version__,
        **(versions() if device == "cuda" else {}),
    }


def comparison_table(
    runs: Mapping[str, Sequence[Run]], loads: Iterable[Load], more: Sequence[Sequence[str]] = ()
) -> str:
    """Draws a comparison: a column for each server, medians over the repetitions.

    `headlight is faster by` divides the rate of the service by that of the column's server: the
    median of the ratios within each repetition, which a drifting machine distorts least. `more` are
    rows at the end.
    """
    rows = [row for load in loads for row in _load_rows(runs, load)]
    totals: dict[str, Callable[[Run], float | None]] = {
        "memory, MB": lambda run: run.memory_bytes / _MEGABYTE,
        "GPU memory, MB": lambda run: run.gpu_bytes / _MEGABYTE or None,
        "start to first answer, s": lambda run: run.start_seconds,
        "slowest of the first answers, ms": lambda run: 1000 * run.first_seconds,
    }
    rows += [
        [name, *(_median(map(of, each)) for each in runs.values())] for name, of in totals.items()
    ]
    return table(["", *runs], [*rows, *more])


def _load_rows(runs: Mapping[str, Sequence[Run]], load: Load) -> Iterator[Sequence[str]]:
    measured = {
        name: [run for run in each if load.name in run.figures] for name, each in runs.items()
    }

    def row(title: str, of: Callable[[Run], float | None]) -> list[str]:
        return [f"{load.name}: {title}", *(_median(map(of, each)) for each in measured.values())]

    def rate(run: Run) -> float:
        return run.figures[load.name].rate

    yield row("sentences/s", rate)
    yield row("p50, ms", lambda run: 1000 * run.figures[load.name].p50)
    yield row("p99, ms", lambda run: 1000 * run.figures[load.name].p99)
    ratios = (
        _median(rate(one) / rate(other) for one, other in zip(measured[OURS], each, strict=False))
        for each in measured.values()
    )
    yield [f"{load.name}: {OURS} is faster by", *ratios]


def table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Draws a Markdown table; all columns but the first are aligned to the right."""
    widths = [max(map(len, column)) for column in zip(head, *rows, strict=True)]
    rule = ["-" * widths[0], *("-" * (width - 1) + ":" for width in widths[1:])]
    lines = [
        [row[0].ljust(widths[0]), *map(str.rjust, row[1:], widths[1:])]
        for row in (head, rule, *rows)
    ]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def _median(values: Iterable[float | None]) -> str:
    known = [value for value in values if value is not None]
    median = statistics.median(known or [0.0])
    return (f"{median:.2f}" if median < 10 else f"{median:.1f}") if known else ""
