"""Computes how many replicas there should be, as the autoscaler of Kubernetes does.

Takes what the triggers of a ScaledObject measure. `desired` answers for one trigger,
`Autoscaler.decide` for all triggers and over time. Kubernetes describes it at
https://kubernetes.io/docs/tasks/run-application/horizontal-pod-autoscale/.
"""

import math
from collections import deque
from dataclasses import dataclass
from typing import Any, Literal, Self

# A ratio that is this close to 1 changes nothing.
TOLERANCE = 0.1
# Kubernetes adds at most so many replicas in so many seconds, or doubles them.
_STEP = 4
_STEP_SECONDS = 15.0


@dataclass(frozen=True, slots=True)
class Trigger:
    """One measurement that replicas depend on.

    Args:
        name: of it.
        query: that Prometheus answers with one number.
        target: what the number should be.
        kind: `AverageValue`: for each replica. `Value`: as it is.
    """

    name: str
    query: str
    target: float
    kind: Literal["AverageValue", "Value"]

    def desired(self, current: int, measured: float) -> int:
        """Returns how many replicas bring the measurement to its target.

        Args:
            current: replicas that there are.
            measured: what the query gave.
        """
        value = measured / current if self.kind == "AverageValue" else measured
        ratio = value / self.target
        if round(abs(ratio - 1), 9) <= TOLERANCE:
            return current
        # A rounding error must not add a replica.
        return math.ceil(round(current * ratio, 9))


@dataclass(frozen=True, slots=True)
class Rules:
    """What a ScaledObject says.

    Args:
        triggers: of which the one that asks for most replicas counts.
        least: replicas.
        most: replicas.
        up_seconds: for which the smallest number asked for holds, before replicas are added.
        down_seconds: for which the largest number asked for holds, before replicas end.
    """

    triggers: tuple[Trigger, ...]
    least: int
    most: int
    up_seconds: float
    down_seconds: float

    @classmethod
    def read(cls, manifest: dict[str, Any]) -> Self:
        """Reads a ScaledObject whose triggers ask Prometheus."""
        specification = manifest["spec"]
        behavior = specification["advanced"]["horizontalPodAutoscalerConfig"]["behavior"]
        return cls(
            tuple(
                Trigger(
                    trigger["name"],
                    trigger["metadata"]["query"],
                    float(trigger["metadata"]["threshold"]),
                    trigger["metricType"],
                )
                for trigger in specification["triggers"]
            ),
            specification["minReplicaCount"],
            specification["maxReplicaCount"],
            behavior["scaleUp"]["stabilizationWindowSeconds"],
            behavior["scaleDown"]["stabilizationWindowSeconds"],
        )


class Autoscaler:
    """Remembers what was asked for, and steadies it.

    Args:
        rules: to follow.
    """

    def __init__(self, rules: Rules) -> None:
        self.rules = rules
        self._asked: deque[tuple[float, int]] = deque()
        self._counts: deque[tuple[float, int]] = deque()

    def decide(self, now: float, current: int, measured: dict[str, float]) -> int:
        """Returns how many replicas there should be.

        Args:
            now: seconds by any clock that only goes forward.
            current: replicas that there are.
            measured: by name of a trigger; one that is missing was not answered, and asks for
                nothing.
        """
        rules = self.rules
        known = [trigger for trigger in rules.triggers if trigger.name in measured]
        if not known:
            return current
        asked = max(trigger.desired(current, measured[trigger.name]) for trigger in known)
        self._asked.append((now, asked))
        self._counts.append((now, current))
        while self._asked[0][0] < now - max(rules.up_seconds, rules.down_seconds):
            self._asked.popleft()
        while self._counts[0][0] < now - _STEP_SECONDS:
            self._counts.popleft()
        up = min(count for when, count in self._asked if when >= now - rules.up_seconds)
        down = max(count for when, count in self._asked if when >= now - rules.down_seconds)
        steady = up if current < up else min(current, down)
        begun = min(count for _, count in self._counts)
        limit = max(2 * begun, begun + _STEP)
        return max(rules.least, min(rules.most, steady, max(limit, current)))
