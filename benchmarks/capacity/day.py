"""Lets replicas follow the load of a day, second by second, in a model.

The shape of the day is that of real traffic: requests of each hour at a public load balancer, 10
and 11 April 2014, added up. Source: `realAWSCloudwatch/elb_request_count_8c0756.csv` of the Numenta
Anomaly Benchmark (https://github.com/numenta/NAB). Between the middles of hours lie straight lines.
"""

import math
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass

from benchmarks.capacity.curve import Curve
from benchmarks.capacity.replica import SHARE_OF_TIME
from benchmarks.capacity.scaler import DECISION_SECONDS, Rules, Scaler

HOURS = (
    *(1409, 1598, 1444, 1089, 1760, 1493, 996, 1145, 1538, 1457, 1762, 1677),
    *(1629, 1958, 1960, 2093, 2568, 1899, 1857, 2243, 2008, 1272, 1407, 2010),
)
DAY_SECONDS = 86_400
_HOUR_SECONDS = 3_600
# The rate of which the autoscaler learns is that of the last minute.
_RATE_SECONDS = 60
_DRAIN_SECONDS = 5


@dataclass(frozen=True, slots=True)
class Moment:
    """The state at a decision.

    Args:
        seconds: since midnight.
        rate: requests a second.
        ready: replicas that answer.
    """

    seconds: int
    rate: float
    ready: int


@dataclass(frozen=True, slots=True)
class Day:
    """What came of a day.

    Args:
        moments: one for each decision.
        machine_hours: of all replicas, while they start and drain too.
        requests: of the day.
        late: requests sent while the slowest 1 % took longer than wished.
        refused: requests that could not be answered before their deadline.
        most: replicas at once.
    """

    moments: tuple[Moment, ...]
    machine_hours: float
    requests: float
    late: float
    refused: float
    most: int


def shape(seconds: float) -> float:
    """Returns the rate at a moment, divided by the mean of the day.

    Args:
        seconds: since midnight; the day repeats.
    """
    hours = seconds / _HOUR_SECONDS - 0.5
    before = math.floor(hours)
    part = hours - before
    first, second = HOURS[before % len(HOURS)], HOURS[(before + 1) % len(HOURS)]
    return (first + part * (second - first)) * len(HOURS) / sum(HOURS)


def jump(seconds: float) -> float:
    """Returns the factor of a sudden peak: twice the load for ten minutes, at 18 o'clock.

    Args:
        seconds: since midnight. The load doubles within half a minute.
    """
    since = seconds - 18 * _HOUR_SECONDS
    return 1 + max(0.0, min(1.0, since / 30, (600 - since) / 30))


def steady(_: float) -> float:
    """Returns 1: no sudden peak."""
    return 1.0


def fixed(
    curve: Curve,
    *,
    mean: float,
    p99: float,
    replicas: int,
    peak: Callable[[float], float] = steady,
    deadline: float = 10.0,
) -> Day:
    """Simulates a day on a number of replicas that stays.

    Args:
        curve: of a replica.
        mean: requests a second, over the day.
        p99: seconds that the slowest 1 % may take.
        replicas: how many.
        peak: a factor for each moment.
        deadline: seconds until a request is given up.
    """
    rules = Rules(least=replicas, most=replicas)
    return follow(curve, mean=mean, p99=p99, start=0, rules=rules, peak=peak, deadline=deadline)


def follow(
    curve: Curve,
    *,
    mean: float,
    p99: float,
    start: int,
    rules: Rules,
    peak: Callable[[float], float] = steady,
    deadline: float = 10.0,
) -> Day:
    """Simulates a day on replicas that an autoscaler adds and ends.

    Work that exceeds what the ready replicas can do waits as one backlog, shared by all of them.
    What would wait longer than the service admits is refused.

    Args:
        curve: of a replica.
        mean: requests a second, over the day.
        p99: seconds that the slowest 1 % may take.
        start: seconds from the decision until a replica is ready.
        rules: of the autoscaler.
        peak: a factor for each moment.
        deadline: seconds until a request is given up.
    """
    scaler = Scaler(rules)
    rates = [mean * shape(second) * peak(second) for second in range(DAY_SECONDS)]
    begun = max(rules.least, math.ceil(rates[0] / curve.capacity / rules.busy))
    ready = wanted = most = min(begun, rules.most)
    starting: deque[tuple[int, int]] = deque()
    draining: deque[int] = deque()
    moments: list[Moment] = []
    backlog = late = refused = machine_seconds = 0.0
    done: deque[float] = deque(maxlen=_RATE_SECONDS)
    for second, rate in enumerate(rates):
        while starting and starting[0][0] <= second:
            ready += starting.popleft()[1]
        while draining and draining[0] <= second:
            draining.popleft()
        able = ready * curve.capacity
        answered = min(able, backlog + rate)
        backlog += rate - answered
        over = max(0.0, backlog - SHARE_OF_TIME * deadline * able)
        backlog -= over
        refused += over
        slowest = curve.at(min(rate / ready, curve.capacity))[1] + backlog / able
        late += rate - over if slowest > p99 else 0.0
        done.append(answered)
        machine_seconds += wanted + len(draining)
        if second % DECISION_SECONDS == 0:
            busy = sum(done) / len(done) / curve.capacity
            asked = scaler.decide(second, wanted, busy)
            moments.append(Moment(second, rate, ready))
            if asked > wanted:
                starting.append((second + start, asked - wanted))
            for _ in range(wanted - asked):
                # The newest go first; those that do not answer yet need not drain.
                if starting:
                    moment, count = starting.pop()
                    if count > 1:
                        starting.append((moment, count - 1))
                else:
                    ready -= 1
                    draining.append(second + _DRAIN_SECONDS)
            wanted = asked
        most = max(most, ready)
    hours = machine_seconds / _HOUR_SECONDS
    return Day(tuple(moments), hours, sum(rates), late, refused, most)
