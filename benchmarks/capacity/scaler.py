"""Chooses the number of replicas from how busy they are, as the chart's autoscaler does.

The formula is that of Kubernetes: replicas times what is measured, divided by what is wanted.
Within a tenth nothing changes. Replicas are added at once, at most twice as many or four more in 15
seconds. They end when no larger number was asked for during the window.
"""

import math
from collections import deque
from dataclasses import dataclass

# As in the Helm chart and Kubernetes: tests hold that decisions are the same.
DECISION_SECONDS = 15
_TOLERANCE = 0.1
_STEP = 4


@dataclass(frozen=True, slots=True)
class Rules:
    """What the autoscaler is told.

    Args:
        busy: the share of its time that a replica should compute.
        least: replicas.
        most: replicas.
        down_seconds: for which the largest number asked for holds, before replicas end.
    """

    busy: float = 0.7
    least: int = 2
    most: int = 1_000
    down_seconds: float = 300.0


class Scaler:
    """Remembers what was asked for, and steadies it.

    Args:
        rules: to follow.
    """

    def __init__(self, rules: Rules) -> None:
        self._rules = rules
        self._asked: deque[tuple[float, int]] = deque()
        self._before: int | None = None  # replicas at the decision before

    def decide(self, now: float, current: int, busy: float) -> int:
        """Returns how many replicas there should be.

        Args:
            now: seconds, `DECISION_SECONDS` after the last call.
            current: replicas that there are, also those that start.
            busy: how many replicas the load keeps busy.
        """
        rules = self._rules
        ratio = busy / current / rules.busy
        within = round(abs(ratio - 1), 9) <= _TOLERANCE
        asked = current if within else math.ceil(round(current * ratio, 9))
        self._asked.append((now, asked))
        while self._asked[0][0] < now - rules.down_seconds:
            self._asked.popleft()
        steady = asked if asked > current else min(current, max(each for _, each in self._asked))
        begun = current if self._before is None else min(self._before, current)
        self._before = current
        limit = max(2 * begun, begun + _STEP, current)
        return max(rules.least, min(rules.most, steady, limit))
