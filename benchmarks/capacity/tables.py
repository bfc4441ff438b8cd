"""Makes the tables of the guide from what was measured and what the model says to it."""

import math
import statistics
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

from benchmarks.capacity.agreement import (
    agreement,
    by_share,
    corrected,
    of_the_check,
    predicted,
)
from benchmarks.capacity.costs import Cell, faults, fit
from benchmarks.capacity.curve import Curve, capacity, draw_curve
from benchmarks.capacity.day import DAY_SECONDS, Day, fixed, follow, jump, shape, steady
from benchmarks.capacity.plan import bulk_rate, plan
from benchmarks.capacity.record import Measured, modelled
from benchmarks.capacity.scaler import Rules
from benchmarks.table import columns

BILLION = 1e9
TOKENS = 25
P99 = 0.05
HEADROOM = 0.3
# Below the 0.7 of the chart, which is for wishes less strict than 50 ms.
BUSY = 0.6
# Seconds until a new replica answers: its start as measured, and with a new machine and its image.
STARTS = (5, 60, 300)
_MILLI, _MICRO, _NANO = 1e3, 1e6, 1e9
_HOURS = 24


def tables(measured: Measured) -> dict[str, str]:
    """Makes all tables of the guide, by name.

    Args:
        measured: on one machine.
    """
    curve = _curve(measured, TOKENS)
    return {
        "machine": f"{measured.machine} Measured {measured.date}.",
        "costs": _costs(measured),
        "fits": _fits(measured),
        "request": _request(measured),
        "check": _check(measured),
        "billion": _billion(measured),
        "day": _days(curve),
    }


def the_day(measured: Measured) -> tuple[Day, int]:
    """Returns the day of the picture, and the replicas that its highest load needs.

    Args:
        measured: on one machine.
    """
    curve = _curve(measured, TOKENS)
    return _follow(curve, STARTS[1], steady), _fixed_replicas(curve)


def _curve(measured: Measured, tokens: int) -> Curve:
    curve = draw_curve(modelled(measured, measured.dtype), [tokens])
    return corrected(curve, agreement(measured))


def _costs(measured: Measured) -> str:
    kinds = list(measured.cells)
    head = ["tokens"]
    for kind in kinds:
        head += [f"{kind}, alone", "µs a token"]
    cells = {kind: _by_length(measured.cells[kind]) for kind in kinds}
    lines = []
    for length, shapes in cells[kinds[0]].items():
        line = [str(length)]
        for kind in kinds:
            shapes = cells[kind][length]
            line += [f"{shapes[0].team * _MILLI:.2f} ms", _a_token(shapes[-1])]
        lines.append(line)
    return columns(head, lines)


def _by_length(cells: Sequence[Cell]) -> dict[int, list[Cell]]:
    found: dict[int, list[Cell]] = {}
    for cell in sorted(cells, key=lambda cell: (cell.length, cell.texts)):
        found.setdefault(cell.length, []).append(cell)
    return found


def _a_token(cell: Cell) -> str:
    return f"{cell.busy / (cell.length * cell.texts) * _MICRO:.1f}"


def _fits(measured: Measured) -> str:
    lines = []
    for kind, cells in measured.cells.items():
        cost, (middle, largest) = fit(cells).busy, faults(cells)
        lines.append(
            (
                kind,
                f"{cost.base * _MILLI:.2f} ms",
                f"{cost.per_token * _MICRO:.1f} µs",
                f"{cost.per_square * _NANO:.0f} ns",
                f"{middle:.0%}",
                f"{largest:.0%}",
            )
        )
    head = ("type", "a pass", "a token", "a pair of tokens", "median error", "largest error")
    return columns(head, lines)


def _request(measured: Measured) -> str:
    runs = measured.repetitions
    replica = modelled(measured, measured.dtype, client=True)
    patient = replace(replica, deadline=math.inf)
    rows: list[tuple[str, Sequence[float], str]] = [
        ("event loop for a request, ms", [run.handling.loop * _MILLI for run in runs], ".2f"),
        ("client for a request, ms", [run.handling.client * _MILLI for run in runs], ".2f"),
        ("answer of an idle replica, ms", [run.handling.idle * _MILLI for run in runs], ".2f"),
        ("saturation, sentences a second", [run.saturation for run in runs], ".0f"),
    ]
    lines = [
        (name, f"{statistics.median(found):{form}}", _range(found, form))
        for name, found, form in rows
    ]
    most = capacity(patient, measured.lengths)
    lines.append(("the same, predicted", f"{most:.0f}", ""))
    return columns(("", "median", "range"), lines)


def _check(measured: Measured) -> str:
    replica = of_the_check(measured)
    lines = []
    for share, loads in by_share(measured).items():
        models = [predicted(replica, load, measured.lengths) for load in loads]
        line = [f"{share:g}", f"{statistics.median(load.rate for load in loads):.0f}"]
        for place, found in enumerate(([load.p50 for load in loads], [load.p99 for load in loads])):
            line.append(_milliseconds(found))
            line.append(f"{statistics.median(model[place] for model in models) * _MILLI:.1f}")
        refused = [load.refused for load in loads]
        line.append(f"{statistics.median(refused):.1%}")
        line.append(f"{statistics.median(model[2] for model in models):.1%}")
        lines.append(line)
    head = ("load", "sentences/s", "p50 ms", "predicted", "p99 ms", "predicted")
    return columns((*head, "refused", "predicted"), lines)


def _billion(measured: Measured) -> str:
    mean = BILLION / DAY_SECONDS
    peak = mean * _highest()
    found = agreement(measured)
    lines = []
    for kind, cells in measured.cells.items():
        curve = corrected(draw_curve(modelled(measured, kind), [TOKENS]), found)
        online = plan(curve, rate=peak, p99=P99, headroom=HEADROOM)
        bulk = bulk_rate(fit(cells).busy, tokens=TOKENS, cores=measured.cores)
        machines = math.ceil(mean / bulk)
        lines.append(
            (
                kind,
                f"{curve.capacity:,.0f}",
                f"{online.replicas} ({online.replicas * measured.cores} cores)",
                f"{online.p99 * _MILLI:.0f} ms",
                f"{bulk:,.0f}",
                f"{machines} ({machines * measured.cores} cores)",
            )
        )
    head = ("type", "online, a replica", "replicas for the peak", "p99 there")
    return columns((*head, "bulk, a machine", "machines all day"), lines)


def _highest() -> float:
    return max(shape(second) for second in range(0, DAY_SECONDS, 60))


def _fixed_replicas(curve: Curve) -> int:
    peak = BILLION / DAY_SECONDS * _highest()
    return plan(curve, rate=peak, p99=P99, headroom=HEADROOM).replicas


def _follow(curve: Curve, start: int, peak: Callable[[float], float]) -> Day:
    mean = BILLION / DAY_SECONDS
    return follow(curve, mean=mean, p99=P99, start=start, rules=Rules(busy=BUSY), peak=peak)


def _days(curve: Curve) -> str:
    count = _fixed_replicas(curve)
    mean = BILLION / DAY_SECONDS

    def rows() -> Iterator[Sequence[str]]:
        for name, peak in (("as it is", steady), ("with the jump", jump)):
            day = fixed(curve, mean=mean, p99=P99, replicas=count, peak=peak)
            yield _row(name, f"fixed, {count}", day)
            for start in STARTS:
                yield _row(name, f"ready after {start} s", _follow(curve, start, peak))

    head = ("day", "replicas", "most", "machine-hours", "of fixed", "late", "refused")
    lines = list(rows())
    hours = count * _HOURS
    return columns(
        head,
        [
            (*line[:4], f"{float(line[3].replace(',', '')) / hours:.0%}", *line[4:])
            for line in lines
        ],
    )


def _row(name: str, replicas: str, day: Day) -> Sequence[str]:
    late, refused = day.late / day.requests, day.refused / day.requests
    return (
        name,
        replicas,
        str(day.most),
        f"{day.machine_hours:,.0f}",
        f"{late:.2%}",
        f"{refused:.2%}",
    )


def _milliseconds(seconds: Sequence[float]) -> str:
    found = [each * _MILLI for each in seconds]
    return f"{statistics.median(found):.1f} ({_range(found, '.1f')})"


def _range(found: Sequence[float], form: str) -> str:
    return f"{min(found):{form}} to {max(found):{form}}"
