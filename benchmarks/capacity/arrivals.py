"""Makes the moments and the lengths of requests: arrivals without memory, from a seed."""

from collections.abc import Sequence

import numpy as np


def poisson(rate: float, count: int, *, seed: int) -> list[float]:
    """Returns when requests come that know nothing of each other (a Poisson process).

    Two rates with one seed have the same moments but for a factor, so that differences between
    them come from the rates.

    Args:
        rate: requests a second.
        count: of requests.
        seed: of the generator.

    Returns:
        Seconds from the beginning, ascending.
    """
    gaps = np.random.default_rng(seed).exponential(size=count)
    return [float(moment) for moment in gaps.cumsum() / rate]


def drawn(lengths: Sequence[int], count: int, *, seed: int) -> list[int]:
    """Draws the lengths of requests from those of a sample.

    Args:
        lengths: of the sample, in tokens.
        count: of requests.
        seed: of the generator.
    """
    return [int(each) for each in np.random.default_rng(seed).choice(lengths, size=count)]
