"""Logs a run to trackers: names and numbers, never a text.

A tracker is imported only if the user asks for it.
"""

import importlib
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from model.validation import nearest

if TYPE_CHECKING:  # the options of the command line need only the targets
    from training.data.dataset import Dataset
    from training.fit.recipe import Recipe
    from training.measure.history import Measurement
    from training.measure.metrics import Figures

TENSORBOARD, MLFLOW = "tensorboard", "mlflow"
Parameter = str | int | float | bool

# Names of series. Each prefix becomes a section in the interfaces of the trackers.
_EPOCH_VALUES = (
    "training_loss",
    "training_accuracy",
    "validation_loss",
    "validation_accuracy",
    "learning_rate",
)
_FINAL_VALUES = ("accuracy", "macro_f1", "log_loss", "ece")
_FOLDER = "runs"  # TensorBoard's own name for it


@dataclass(frozen=True, slots=True)
class Target:
    """A tracker, and its folder or URI; an empty address is the choice of the tracker."""

    tracker: str
    address: str


def parse_target(text: str) -> Target:
    """Reads `tensorboard`, `tensorboard:DIR`, `mlflow` or `mlflow:URI`."""
    tracker, colon, address = text.partition(":")
    if tracker not in (TENSORBOARD, MLFLOW):
        near = nearest(tracker, (TENSORBOARD, MLFLOW))
        hint = "" if near is None else f"; did you mean {near}?"
        raise ValueError(f"must be tensorboard:DIR or mlflow:URI, got {text!r}{hint}")
    if colon and not address:
        what = "a folder" if tracker == TENSORBOARD else "a URI"
        raise ValueError(f"must have {what} after the colon, got {text!r}")
    return Target(tracker, address)


class Tracker(Protocol):
    """What logs a run somewhere."""

    def begin(self, parameters: Mapping[str, Parameter], final: Sequence[str]) -> None:
        """Logs what decides the run; `final` names the figures that it will end with."""

    def log(self, values: Mapping[str, float], step: int) -> None:
        """Logs values of a step, by the names of their series."""

    def close(self, *, has_ended: bool) -> None:
        """Writes what is left, and whether the run has ended."""


class RunLog:
    """Logs one run to several trackers, or to none."""

    def __init__(self, trackers: Sequence[Tracker], first_step: int) -> None:
        self.trackers = trackers
        self.has_ended = False
        self._first_step = first_step

    def begin(self, parameters: Mapping[str, Parameter]) -> None:
        """Logs what decides the run."""
        for tracker in self.trackers:
            tracker.begin(parameters, [f"final/validation/{name}" for name in _FINAL_VALUES])

    def step(self, step: int, loss: float, learning_rate: float) -> None:
        """Logs a step."""
        self._log({"step/training_loss": loss, "step/learning_rate": learning_rate}, step)

    def epoch(self, measurement: "Measurement") -> None:
        """Logs an epoch, unless the run before an interruption did."""
        if measurement.step >= self._first_step:
            values = {f"epoch/{name}": getattr(measurement, name) for name in _EPOCH_VALUES}
            self._log(values, measurement.step)

    def end(self, figures: "Mapping[str, Figures]", temperature: float, *, step: int) -> None:
        """Logs the figures of a finished run, by the names of their sets."""
        values = {
            f"final/{name}/{value}": float(getattr(found, value))
            for name, found in figures.items()
            for value in _FINAL_VALUES
        }
        self._log({**values, "final/temperature": temperature}, step)
        self.has_ended = True

    def _log(self, values: Mapping[str, float], step: int) -> None:
        for tracker in self.trackers:
            tracker.log(values, step)


def parameters_of(
    recipe: "Recipe", origin: Mapping[str, str], training: "Dataset", validation: "Dataset"
) -> dict[str, Parameter]:
    """Returns every value of a run that may differ from another run's; no text is among them."""
    values: dict[str, Parameter] = {}
    for name, value in recipe.model_dump(mode="json", exclude_none=True).items():
        if isinstance(value, Mapping):
            values |= {f"{name}.{part}": size for part, size in value.items()}
        else:
            values[name] = value if isinstance(value, Parameter) else str(value)
    return {
        **values,
        **origin,
        "training_rows": len(training),
        "validation_rows": len(validation),
        "classes": len(training.labels),
    }


def check_installed(targets: Sequence[Target]) -> None:
    """Imports the trackers, so that a missing one is reported before any work is done."""
    for target in targets:
        if target.tracker == MLFLOW:
            # No telemetry, and a server that is away is reported soon.
            os.environ["MLFLOW_DISABLE_TELEMETRY"] = "true"
            os.environ.setdefault("MLFLOW_HTTP_REQUEST_MAX_RETRIES", "2")
        importlib.import_module(f"training.tracking.{target.tracker}")


@contextmanager
def opened_logs(
    targets: Sequence[Target], name: str, *, folder: Path, first_step: int
) -> Iterator[RunLog]:
    """Opens the trackers of one run, and closes them in any case."""
    check_installed(targets)
    trackers: list[Tracker] = []
    log = RunLog(trackers, first_step)
    try:
        for target in targets:
            trackers.append(_open(target, name, folder, first_step))
        yield log
    finally:
        for tracker in trackers:
            tracker.close(has_ended=log.has_ended)


def _open(target: Target, name: str, folder: Path, first_step: int) -> Tracker:
    if target.tracker == TENSORBOARD:
        from training.tracking.tensorboard import TensorBoardTracker

        return TensorBoardTracker(Path(target.address or _FOLDER) / name, first_step)
    from training.tracking.mlflow import MlflowTracker

    return MlflowTracker(target.address or None, name, folder, is_resumed=first_step > 0)
