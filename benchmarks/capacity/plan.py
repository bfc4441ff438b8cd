"""Says how many replicas a load needs."""

import math
from dataclasses import dataclass

from benchmarks.capacity.costs import Cost
from benchmarks.capacity.curve import Curve
from benchmarks.errors import BenchmarkError

HOURS_OF_A_MONTH = 730
# The share of the speed of full passes that files of sentences reach. Not measured: the loops that
# read and write files are estimated to take the rest.
BULK_SHARE = 0.9
_SLACK = 1e-9
_MILLISECONDS = 1000


@dataclass(frozen=True, slots=True)
class Plan:
    """Replicas for a load.

    Args:
        replicas: how many.
        rate: requests a second of each.
        utilisation: the share of what each can answer.
        p50: median seconds.
        p99: seconds of the slowest 1 %.
    """

    replicas: int
    rate: float
    utilisation: float
    p50: float
    p99: float


def plan(curve: Curve, *, rate: float, p99: float, headroom: float) -> Plan:
    """Plans the fewest replicas that answer in time and keep some room.

    Args:
        curve: of one replica.
        rate: requests a second of all replicas.
        p99: seconds that the slowest 1 % may take.
        headroom: the share of its capacity that each replica keeps free.

    Raises:
        BenchmarkError: no number of replicas is enough.
    """
    in_time = curve.most(p99)
    if not in_time:
        raise BenchmarkError(
            f"--p99 {p99 * _MILLISECONDS:g}: a replica that has almost nothing to do already takes "
            f"{curve.p99[0] * _MILLISECONDS:.1f} ms for its slowest 1 %, and more replicas do not "
            "change that: allow more, or choose fewer --tokens or another --dtype"
        )
    each = min(in_time, (1 - headroom) * curve.capacity)
    replicas = max(1, math.ceil(rate / each - _SLACK))
    share = rate / replicas
    middle, slowest = curve.at(share)
    return Plan(replicas, share, share / curve.capacity, middle, slowest)


def bulk_rate(cost: Cost, *, tokens: int, cores: int, max_batch_tokens: int = 512) -> float:
    """Returns how many sentences a second full passes on all cores compute, files included.

    Args:
        cost: of a pass on one core while the others are busy.
        tokens: of each sentence.
        cores: that compute.
        max_batch_tokens: of a pass.
    """
    texts = max(1, max_batch_tokens // tokens)
    return BULK_SHARE * cores * texts / cost.seconds(texts * tokens, texts * tokens**2)
