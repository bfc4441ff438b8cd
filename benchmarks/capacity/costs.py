"""Fits the seconds of a forward pass to its tokens, from passes that were timed.

Projections cost the same for each token. Attention compares each token of a text with each other
one, so it costs the square of a length. What is left is the fixed cost of a pass.
"""

import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import combinations

import numpy as np

from benchmarks.errors import BenchmarkError

_TERMS = 3


@dataclass(frozen=True, slots=True)
class Cell:
    """Passes over texts of one length, timed in three ways.

    Args:
        length: tokens of each text.
        texts: in a pass.
        one: seconds of a pass on one thread, while the other cores are idle.
        busy: seconds of a pass on one thread, while every other core runs one too.
        team: seconds of a pass on all cores.
    """

    length: int
    texts: int
    one: float
    busy: float
    team: float


@dataclass(frozen=True, slots=True)
class Cost:
    """The seconds of a pass: `base + per_token * tokens + per_square * squares`.

    Args:
        base: seconds of any pass.
        per_token: seconds of each token.
        per_square: seconds of each pair of tokens of one text.
    """

    base: float
    per_token: float
    per_square: float

    def seconds(self, tokens: float, squares: float) -> float:
        """Returns the seconds of a pass.

        Args:
            tokens: of all texts.
            squares: the sum of the squares of their lengths.
        """
        return self.base + self.per_token * tokens + self.per_square * squares


@dataclass(frozen=True, slots=True)
class Passes:
    """The cost of passes in one data type.

    Args:
        one: on one thread, while the other cores are idle.
        busy: on one thread, while the other cores are busy.
        team: on all cores.
    """

    one: Cost
    busy: Cost
    team: Cost


def fit(cells: Sequence[Cell]) -> Passes:
    """Fits the three costs.

    Args:
        cells: of at least three different lengths.

    Raises:
        BenchmarkError: there are too few cells.
    """
    return Passes(
        _fit(cells, lambda cell: cell.one),
        _fit(cells, lambda cell: cell.busy),
        _fit(cells, lambda cell: cell.team),
    )


def faults(cells: Sequence[Cell]) -> tuple[float, float]:
    """Returns the median and the largest relative error of the fit to busy cores.

    Args:
        cells: that are fitted.
    """
    cost = fit(cells).busy
    found = [
        abs(cost.seconds(cell.length * cell.texts, cell.length**2 * cell.texts) / cell.busy - 1)
        for cell in cells
    ]
    return statistics.median(found), max(found)


def _fit(cells: Sequence[Cell], seconds: Callable[[Cell], float]) -> Cost:
    """Minimises the squares of relative errors, with no term below 0.

    The best fit without negative terms is the best of the fits to some of the terms that have none.
    There are seven choices, so all are tried.
    """
    if len({cell.length for cell in cells}) < _TERMS:
        raise BenchmarkError("a fit needs passes over texts of at least three lengths")
    measured = np.array([seconds(cell) for cell in cells])
    terms = np.array(
        [(1, cell.length * cell.texts, cell.length**2 * cell.texts) for cell in cells], dtype=float
    )
    scaled = terms / measured[:, None]
    best, least = np.zeros(_TERMS), float("inf")
    for count in range(1, _TERMS + 1):
        for chosen in map(list, combinations(range(_TERMS), count)):
            found = np.linalg.lstsq(scaled[:, chosen], np.ones(len(cells)), rcond=None)[0]
            error = float(((scaled[:, chosen] @ found - 1) ** 2).sum())
            if found.min() >= 0 and error < least:
                best, least = np.zeros(_TERMS), error
                best[chosen] = found
    return Cost(*map(float, best))
