"""Opens the logs of a run in trackers; a tracker is imported only if the user asks for it."""

import importlib
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

from model.validation import nearest

if TYPE_CHECKING:  # the options of the command line need only the targets
    from training.data.dataset import Dataset
    from training.fit.recipe import Recipe
    from training.measure.history import Measurement
    from training.measure.metrics import Figures
    from training.tracking.mlflow import MlflowLog
    from training.tracking.tensorboard import TensorBoardLog

    RunLog: TypeAlias = MlflowLog | TensorBoardLog

TENSORBOARD, MLFLOW = "tensorboard", "mlflow"
Parameter = str | int | float | bool

# Names of series. Each prefix becomes a section in the interfaces of the trackers.
STEP_LOSS, STEP_RATE = "step/training_loss", "step/learning_rate"
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

    kind: str
    address: str


def parse_target(text: str) -> Target:
    """Reads `tensorboard`, `tensorboard:DIR`, `mlflow` or `mlflow:URI`."""
    kind, colon, address = text.partition(":")
    if kind not in (TENSORBOARD, MLFLOW):
        near = nearest(kind, (TENSORBOARD, MLFLOW))
        hint = "" if near is None else f"; did you mean {near}?"
        raise ValueError(f"must be tensorboard:DIR or mlflow:URI, got {text!r}{hint}")
    if colon and not address:
        what = "a folder" if kind == TENSORBOARD else "a URI"
        raise ValueError(f"must have {what} after the colon, got {text!r}")
    return Target(kind, address)


@dataclass(frozen=True, slots=True)
class CombinedLogger:
    """Passes everything to several logs of one run, or to none: names and numbers, never a text."""

    logs: "Sequence[RunLog]" = ()

    def begin(self, parameters: Mapping[str, Parameter]) -> None:
        """Logs what decides the run."""
        for log in self.logs:
            log.begin(parameters)

    def step(self, step: int, loss: float, learning_rate: float) -> None:
        """Logs a step."""
        for log in self.logs:
            log.step(step, loss, learning_rate)

    def epoch(self, measurement: "Measurement") -> None:
        """Logs an epoch."""
        for log in self.logs:
            log.epoch(measurement)

    def end(self, figures: Mapping[str, float], *, step: int) -> None:
        """Logs the figures of a finished run."""
        for log in self.logs:
            log.end(figures, step=step)


def epoch_values(measurement: "Measurement") -> dict[str, float]:
    """Returns the numbers of an epoch, by the names of their series."""
    return {f"epoch/{name}": getattr(measurement, name) for name in _EPOCH_VALUES}


def final_values(figures: "Mapping[str, Figures]", temperature: float) -> dict[str, float]:
    """Returns the numbers of a finished run, by the names of their series."""
    values = {
        f"final/{name}/{value}": float(getattr(found, value))
        for name, found in figures.items()
        for value in _FINAL_VALUES
    }
    return {**values, "final/temperature": temperature}


def final_names() -> list[str]:
    """Returns the series of a finished run that every run has."""
    return [f"final/validation/{value}" for value in _FINAL_VALUES]


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
        if target.kind == MLFLOW:
            # No telemetry, and a server that is away is reported soon.
            os.environ["MLFLOW_DISABLE_TELEMETRY"] = "true"
            os.environ.setdefault("MLFLOW_HTTP_REQUEST_MAX_RETRIES", "2")
        importlib.import_module(f"training.tracking.{target.kind}")


@contextmanager
def opened_logs(
    targets: Sequence[Target], name: str, *, folder: Path, first_step: int
) -> Iterator[CombinedLogger]:
    """Opens the logs of one run, and closes them in any case."""
    check_installed(targets)
    logs: list[RunLog] = []
    try:
        for target in targets:
            logs.append(_open(target, name, folder, first_step))
        yield CombinedLogger(logs)
    finally:
        for log in logs:
            log.close()


def _open(target: Target, name: str, folder: Path, first_step: int) -> "RunLog":
    if target.kind == TENSORBOARD:
        from training.tracking.tensorboard import TensorBoardLog

        return TensorBoardLog(Path(target.address or _FOLDER) / name, first_step=first_step)
    from training.tracking.mlflow import MlflowLog

    return MlflowLog(target.address or None, name, folder=folder, first_step=first_step)
