"""From a comparison to the lines that are printed: medians of the repetitions, and their ratios."""

import statistics
from collections.abc import Callable, Sequence

from benchmarks.comparison import Comparison, Run
from benchmarks.load import Measurement

_HEADER = ("", "", "sentences/s", "range", "p50 ms", "p99 ms", "ratio")
_MEGABYTE = 1_000_000


def table(comparison: Comparison, *, ours: str, peer: str) -> str:
    """Draws the table.

    Args:
        comparison: of at least one repetition.
        ours: the name of the service.
        peer: the name of the other.

    Returns:
        Lines without an end; the ratio of a load is the median rate of the service divided by
        that of its peer, so that above 1 the service is faster. The ratios of start-up time and
        memory are made alike, and there below 1 is better.
    """
    lines: list[Sequence[str]] = [_HEADER]
    for index, load in enumerate(comparison.loads):
        mine = [each.measurements[index] for each in comparison.ours]
        other = [each.measurements[index] for each in comparison.peers]
        ratio = _rate(mine) / _rate(other)
        lines.append((str(load), ours, *_figures(mine), f"{ratio:.2f}"))
        lines.append(("", peer, *_figures(other), ""))
    lines.append(("",) * len(_HEADER))
    for name, value in (("start-up, s", _start), ("memory, MB", _memory)):
        mine_at, other_at = _median(comparison.ours, value), _median(comparison.peers, value)
        compared = "" if mine_at is None or other_at is None else f"{mine_at / other_at:.2f}"
        lines.append((name, ours, _shown(mine_at), "", "", "", compared))
        lines.append(("", peer, _shown(other_at), "", "", "", ""))
    return _aligned(lines)


def _figures(measurements: Sequence[Measurement]) -> tuple[str, str, str, str]:
    rates = [each.sentences_per_second for each in measurements]
    return (
        f"{_rate(measurements):.1f}",
        f"{min(rates):.1f} to {max(rates):.1f}",
        f"{1000 * statistics.median(each.p50 for each in measurements):.1f}",
        f"{1000 * statistics.median(each.p99 for each in measurements):.1f}",
    )


def _rate(measurements: Sequence[Measurement]) -> float:
    return statistics.median(each.sentences_per_second for each in measurements)


def _start(run: Run) -> float:
    return run.start_seconds


def _memory(run: Run) -> float | None:
    return None if run.resident_bytes is None else run.resident_bytes / _MEGABYTE


def _median(runs: Sequence[Run], value: Callable[[Run], float | None]) -> float | None:
    known = [found for each in runs if (found := value(each)) is not None]
    return statistics.median(known) if known else None


def _shown(value: float | None) -> str:
    return "unknown" if value is None else f"{value:.1f}"


def _aligned(lines: Sequence[Sequence[str]]) -> str:
    """Words to the left, figures to the right."""
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    return "\n".join(
        "  ".join(
            cell.ljust(width) if column < 2 else cell.rjust(width)
            for column, (cell, width) in enumerate(zip(line, widths, strict=True))
        ).rstrip()
        for line in lines
    )
