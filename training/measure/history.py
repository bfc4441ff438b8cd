"""Writes the history of a run, one measurement for each epoch, as JSON lines."""

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from model.atomic import write_whole


@dataclass(frozen=True, slots=True)
class LossAndAccuracy:
    """Loss (in nats, at the temperature that is best) and accuracy on rows, in evaluation mode."""

    loss: float
    accuracy: float


@dataclass(frozen=True, slots=True)
class Measurement:
    """Losses in nats and accuracies at the end of an epoch; validation as `LossAndAccuracy`.

    Those of training are means over the steps of the epoch, with dropout and smoothing; or measured
    like those of validation, if the run measures its training rows.
    """

    step: int
    epoch: int
    training_loss: float
    training_accuracy: float
    validation_loss: float
    validation_accuracy: float
    learning_rate: float
    seconds: float
    is_best: bool = False  # of all until then


def write_history(history: Sequence[Measurement], path: Path) -> None:
    """Writes one JSON object for each line, to a temporary file that is then renamed."""
    lines = [json.dumps(asdict(measurement)) + "\n" for measurement in history]
    write_whole(path, "".join(lines).encode())
