"""Draws latency over load for one replica, by simulating it at many rates."""

import math
from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import accumulate

from benchmarks.capacity.arrivals import drawn, poisson
from benchmarks.capacity.replica import Replica, simulate
from benchmarks.open_loop import percentile

_REQUESTS = 10_000
# So many requests a second that all of them wait from the beginning.
_AT_ONCE = 1e6
_SHARES = (0.02, *(step / 20 for step in range(1, 18)), 0.88, 0.91, 0.94, 0.97, 1.0)


@dataclass(frozen=True, slots=True)
class Curve:
    """What one replica does at each rate; all three grow with the rate.

    Args:
        capacity: requests a second that it answers at most.
        rates: ascending.
        p50: median seconds at each rate.
        p99: seconds of the slowest 1 %.
    """

    capacity: float
    rates: Sequence[float]
    p50: Sequence[float]
    p99: Sequence[float]

    def at(self, rate: float) -> tuple[float, float]:
        """Returns the median and the slowest 1 % at a rate, on straight lines between points.

        Args:
            rate: at most the capacity.
        """
        place = min(max(bisect_left(self.rates, rate), 1), len(self.rates) - 1)
        return (
            _between(self.rates, self.p50, place, rate),
            _between(self.rates, self.p99, place, rate),
        )

    def most(self, p99: float) -> float:
        """Returns the highest rate at which the slowest 1 % take at most so long; 0 if none.

        Args:
            p99: seconds.
        """
        if p99 < self.p99[0]:
            return 0.0
        for place in range(1, len(self.rates)):
            if self.p99[place] > p99:
                before, after = self.p99[place - 1], self.p99[place]
                part = (p99 - before) / (after - before)
                return self.rates[place - 1] + part * (self.rates[place] - self.rates[place - 1])
        return self.rates[-1]


def _between(xs: Sequence[float], ys: Sequence[float], place: int, x: float) -> float:
    part = (x - xs[place - 1]) / (xs[place] - xs[place - 1])
    return ys[place - 1] + max(0.0, part) * (ys[place] - ys[place - 1])


def capacity(replica: Replica, lengths: Sequence[int], *, requests: int = _REQUESTS) -> float:
    """Returns how many requests a second a replica answers at most.

    Args:
        replica: to simulate.
        lengths: of texts, to draw from.
        requests: to simulate.
    """
    patient = replace(replica, deadline=math.inf)
    outcome = simulate(
        patient, poisson(_AT_ONCE, requests, seed=0), drawn(lengths, requests, seed=0)
    )
    return requests / outcome.seconds


def draw_curve(replica: Replica, lengths: Sequence[int], *, requests: int = _REQUESTS) -> Curve:
    """Simulates a replica from almost no load to its capacity.

    Args:
        replica: to simulate.
        lengths: of texts, to draw from.
        requests: to simulate at each rate.
    """
    most = capacity(replica, lengths, requests=requests)
    rates = [share * most for share in _SHARES]
    texts = drawn(lengths, requests, seed=0)
    found = []
    for rate in rates:
        outcome = simulate(replica, poisson(rate, requests, seed=0), texts)
        answered = [each for each in outcome.latencies if each < math.inf]
        found.append((percentile(answered, 50), percentile(answered, 99)))
    p50, p99 = (list(accumulate(times, max)) for times in zip(*found, strict=True))
    return Curve(most, rates, p50, p99)
