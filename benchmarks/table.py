"""Draws a comparison as tables of medians and ratios over the repetitions."""

import statistics
from collections.abc import Callable, Iterator, Sequence
from operator import truediv

from benchmarks.comparison import Comparison, Run
from benchmarks.loads import Load, Mixed, limiting
from benchmarks.measure import Measurement

_MEGABYTE = 1_000_000
_HEAD = (
    *("load", "server", "asked/s", "sentences/s", "range"),
    *("p50 ms", "p99 ms", "times", "of the limit"),
)


def tables(comparison: Comparison, *, ours: str) -> str:
    """Draws the tables as Markdown.

    Args:
        comparison: of at least one repetition.
        ours: the name of the service.

    Returns:
        The tables. `asked/s` is the fixed rate of a load, if it has one. `times` is the rate of the
        service divided by that of the line's server, so above 1 the service is faster; empty for
        fixed rates. `of the limit` is the rate divided by that of the service's model alone. In the
        last table, of models alone, `times` is the rate of the service's model divided by that of
        the line's. All are medians of the ratios within each repetition. `GPU busy` is the share of
        the time in which the GPU computed; without any such figure there is no column.
    """
    runs = [run for each in comparison.runs.values() for run in each]
    on_gpu = any(found.busy is not None for run in runs for found in run.measurements.values())
    head = (*_HEAD, "GPU busy") if on_gpu else _HEAD
    return "\n\n".join(
        [
            columns(head, list(_speeds(comparison, ours, on_gpu=on_gpu))),
            columns(
                ("short texts", "server", "p99 ms alone", "p99 ms beside long ones", "times"),
                list(_mixed(comparison)),
            ),
            columns(("", *comparison.runs), [_resources(comparison, *each) for each in _RESOURCES]),
            columns(
                ("the model alone, after", "of", "texts/s", "range", "times"),
                list(_limits(comparison, ours)),
            ),
        ]
    )


def _speeds(comparison: Comparison, ours: str, *, on_gpu: bool) -> Iterator[Sequence[str]]:
    for load in comparison.loads:
        if isinstance(load, Mixed):
            continue
        mine = _rates(comparison, ours, load)
        for name in comparison.runs:
            measurements = _of(comparison, name, load)
            if not measurements:
                continue
            rates = _rates(comparison, name, load)
            asked = [each.asked for each in measurements if each.asked is not None]
            yield (
                load.name,
                name,
                f"{statistics.median(asked):.1f}" if asked else "",
                f"{statistics.median(rates):.1f}",
                _range(rates),
                _milliseconds(each.figures.p50 for each in measurements),
                _milliseconds(each.figures.p99 for each in measurements),
                "" if name == ours or asked else _ratio(mine, rates),
                _ratio(rates, comparison.limits[load.name][ours]) if limiting(load) else "",
                *([_busy(measurements)] if on_gpu else []),
            )


def _busy(measurements: Sequence[Measurement]) -> str:
    known = [each.busy for each in measurements if each.busy is not None]
    return f"{statistics.median(known):.2f}" if known else "unknown"


def _mixed(comparison: Comparison) -> Iterator[Sequence[str]]:
    for load in comparison.loads:
        if not isinstance(load, Mixed):
            continue
        for name in comparison.runs:
            found = _of(comparison, name, load)
            alone = [each.undisturbed.p99 for each in found if each.undisturbed is not None]
            beside = [each.figures.p99 for each in found]
            yield (
                load.name,
                name,
                _milliseconds(alone),
                _milliseconds(beside),
                _ratio(beside, alone),
            )


def _limits(comparison: Comparison, ours: str) -> Iterator[Sequence[str]]:
    for load, limits in comparison.limits.items():
        for name, rates in limits.items():
            times = "" if name == ours else _ratio(limits[ours], rates)
            yield load, name, f"{statistics.median(rates):.0f}", _range(rates), times


def _ratio(rates: Sequence[float], others: Sequence[float]) -> str:
    """Returns the median ratio within repetitions, which a drifting machine distorts least."""
    return f"{statistics.median(map(truediv, rates, others)):.2f}"


def _of(comparison: Comparison, name: str, load: Load) -> list[Measurement]:
    found = (run.measurements.get(load.name) for run in comparison.runs[name])
    return [each for each in found if each is not None]


def _rates(comparison: Comparison, name: str, load: Load) -> list[float]:
    return [each.figures.rate for each in _of(comparison, name, load)]


def _resources(
    comparison: Comparison, title: str, value: Callable[[Run], float | None]
) -> Sequence[str]:
    cells = [title]
    for runs in comparison.runs.values():
        known = [found for each in runs if (found := value(each)) is not None]
        cells.append(f"{statistics.median(known):.1f}" if known else "unknown")
    return cells


def _start(run: Run) -> float:
    return run.start_seconds


def _memory(run: Run) -> float | None:
    return None if run.memory_bytes is None else run.memory_bytes / _MEGABYTE


_RESOURCES = (("start-up, s", _start), ("memory, MB", _memory))


def _range(rates: Sequence[float]) -> str:
    return f"{min(rates):.0f} to {max(rates):.0f}"


def _milliseconds(seconds: Sequence[float] | Iterator[float]) -> str:
    return f"{1000 * statistics.median(seconds):.1f}"


def columns(head: Sequence[str], lines: Sequence[Sequence[str]]) -> str:
    """Draws a table as Markdown; all but the first two columns hold figures, to the right.

    Args:
        head: names of the columns.
        lines: cells, as many in each line.
    """
    widths = [max(map(len, column)) for column in zip(head, *lines, strict=True)]

    def line(cells: Sequence[str]) -> str:
        padded = (
            cell.ljust(width) if column < 2 else cell.rjust(width)
            for column, (cell, width) in enumerate(zip(cells, widths, strict=True))
        )
        return f"| {' | '.join(padded)} |"

    rule = [
        "-" * width if column < 2 else "-" * (width - 1) + ":"
        for column, width in enumerate(widths)
    ]
    return "\n".join([line(head), line(rule), *map(line, lines)])
