"""Compares the model of a replica with the real service, and corrects it by what was found."""

import statistics
from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import accumulate

from benchmarks.capacity.arrivals import drawn, poisson
from benchmarks.capacity.check import figures
from benchmarks.capacity.curve import Curve, capacity
from benchmarks.capacity.record import MOST_OTHERS, Load, Measured, modelled
from benchmarks.capacity.replica import Replica, simulate


@dataclass(frozen=True, slots=True)
class Excess:
    """How much longer real answers take than predicted ones, at one load.

    Args:
        share: of saturation.
        p50: the measured median, divided by the predicted one.
        p99: the same of the slowest 1 %.
    """

    share: float
    p50: float
    p99: float


@dataclass(frozen=True, slots=True)
class Agreement:
    """What the check found.

    Args:
        saturation: measured, divided by predicted.
        excesses: at ascending loads up to saturation.
    """

    saturation: float
    excesses: Sequence[Excess]

    def at(self, share: float) -> tuple[float, float]:
        """Returns the factors of p50 and p99 at a share of saturation, on straight lines.

        An idle replica has the factor 1, because its answer is measured, not predicted.
        """
        points = (Excess(0.0, 1.0, 1.0), *self.excesses)
        place = min(bisect_left([each.share for each in points], share), len(points) - 1)
        after = points[place]
        if place == 0 or share >= after.share:
            return after.p50, after.p99
        before = points[place - 1]
        part = (share - before.share) / (after.share - before.share)
        return (
            before.p50 + part * (after.p50 - before.p50),
            before.p99 + part * (after.p99 - before.p99),
        )


def by_share(measured: Measured) -> dict[float, list[Load]]:
    """Returns the loads at each share; those beside other programs only if there are no others."""
    found: dict[float, list[Load]] = {}
    for run in measured.repetitions:
        for load in run.loads:
            found.setdefault(load.share, []).append(load)
    return {
        share: [load for load in loads if load.others <= MOST_OTHERS] or loads
        for share, loads in found.items()
    }


def of_the_check(measured: Measured) -> Replica:
    """Returns the model of the replica as the check asks it: its client takes time too."""
    replica = modelled(measured, measured.dtype, client=True)
    return replace(replica, deadline=measured.deadline)


def predicted(replica: Replica, load: Load, lengths: Sequence[int]) -> tuple[float, float, float]:
    """Simulates a load with the moments at which the real requests were sent.

    Returns:
        The median, the slowest 1 %, and the share without an answer.
    """
    moments = poisson(load.rate, load.requests, seed=load.seed)
    outcome = simulate(replica, moments, drawn(lengths, load.requests, seed=load.seed))
    return figures(outcome.latencies)


def agreement(measured: Measured) -> Agreement:
    """Divides what was measured by what the model predicts."""
    replica = of_the_check(measured)
    excesses = []
    for share, loads in sorted(by_share(measured).items()):
        if share > 1.0:
            continue
        models = [predicted(replica, load, measured.lengths) for load in loads]
        p50 = statistics.median(load.p50 for load in loads)
        p99 = statistics.median(load.p99 for load in loads)
        excesses.append(
            Excess(
                share,
                max(1.0, p50 / statistics.median(model[0] for model in models)),
                max(1.0, p99 / statistics.median(model[1] for model in models)),
            )
        )
    real = statistics.median(run.saturation for run in measured.repetitions)
    return Agreement(min(1.0, real / capacity(replica, measured.lengths)), excesses)


def corrected(curve: Curve, found: Agreement) -> Curve:
    """Makes a predicted curve as slow as the check found the real service to be.

    Args:
        curve: of the model.
        found: by the check, which has one data type and one set of lengths.
    """
    most = curve.capacity * found.saturation
    rates = [*(rate for rate in curve.rates if rate < most), most]
    points = []
    for rate in rates:
        p50, p99 = curve.at(rate)
        factors = found.at(rate / most)
        points.append((p50 * factors[0], p99 * factors[1]))
    middle, slowest = (list(accumulate(times, max)) for times in zip(*points, strict=True))
    return Curve(most, rates, middle, slowest)
