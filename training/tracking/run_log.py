"""Defines what a run tells a tracker, and tells several trackers at once."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from training.measure.history import Measurement
from training.measure.metrics import Figures

Parameter = str | int | float | bool

# Names of series. Each prefix becomes a section in the interfaces of the trackers.
STEP_LOSS, STEP_RATE = "step/training_loss", "step/learning_rate"
_EPOCH = "epoch"
_FINAL = "final"
_EPOCH_VALUES = (
    "training_loss",
    "training_accuracy",
    "validation_loss",
    "validation_accuracy",
    "learning_rate",
)
_FINAL_VALUES = ("accuracy", "macro_f1", "log_loss", "ece")


class RunLog(Protocol):
    """One run in a tracker. It is told names and numbers, and never a text."""

    def begin(self, parameters: Mapping[str, Parameter]) -> None:
        """Tells what decides the run."""

    def step(self, step: int, loss: float, learning_rate: float) -> None:
        """Tells a step: the steps before it, its mean loss, and its rate."""

    def epoch(self, measurement: Measurement) -> None:
        """Tells an epoch. A resumed run tells those again that were done before."""

    def end(self, figures: Mapping[str, float], *, step: int) -> None:
        """Tells the figures of a run that is done after so many steps."""

    def close(self) -> None:
        """Writes what is left. A run that has not ended counts as interrupted."""


@dataclass(frozen=True, slots=True)
class CombinedLogger:
    """Several logs of one run; none if nobody asked for one.

    Args:
        logs: that are told everything, in their order.
    """

    logs: Sequence[RunLog] = ()

    def begin(self, parameters: Mapping[str, Parameter]) -> None:
        """Tells all of them."""
        for log in self.logs:
            log.begin(parameters)

    def step(self, step: int, loss: float, learning_rate: float) -> None:
        """Tells all of them."""
        for log in self.logs:
            log.step(step, loss, learning_rate)

    def epoch(self, measurement: Measurement) -> None:
        """Tells all of them."""
        for log in self.logs:
            log.epoch(measurement)

    def end(self, figures: Mapping[str, float], *, step: int) -> None:
        """Tells all of them."""
        for log in self.logs:
            log.end(figures, step=step)

    def close(self) -> None:
        """Closes all of them."""
        for log in self.logs:
            log.close()


def epoch_values(measurement: Measurement) -> dict[str, float]:
    """Returns the numbers of an epoch, by the names of their series."""
    return {f"{_EPOCH}/{name}": getattr(measurement, name) for name in _EPOCH_VALUES}


def final_values(figures: Mapping[str, Figures], temperature: float) -> dict[str, float]:
    """Returns the numbers of a finished run, by the names of their series.

    Args:
        figures: of every set that was measured, by name.
        temperature: fitted on the validation rows.
    """
    values = {
        f"{_FINAL}/{name}/{value}": float(getattr(found, value))
        for name, found in figures.items()
        for value in _FINAL_VALUES
    }
    return {**values, f"{_FINAL}/temperature": temperature}


def final_names() -> list[str]:
    """Returns the series of a finished run that every run has."""
    return [f"{_FINAL}/validation/{value}" for value in _FINAL_VALUES]
