"""Writes the history of a run, one measurement for each epoch, as JSON lines."""

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from model.atomic import write_whole


@dataclass(frozen=True, slots=True)
class Measurement:
    """Losses and accuracies at the end of an epoch.

    Args:
        training_loss: mean over the steps of the epoch, with dropout and smoothing; or measured
            like the validation loss, if the run measures its training rows.
        validation_loss: mean negative log-likelihood of the validation rows, in nats.
    """

    step: int
    epoch: int
    training_loss: float
    training_accuracy: float
    validation_loss: float
    validation_accuracy: float
    learning_rate: float
    seconds: float


def write_history(history: Sequence[Measurement], path: Path) -> None:
    """Writes one JSON object for each line, to a temporary file that is then renamed."""
    lines = [json.dumps(asdict(measurement)) + "\n" for measurement in history]
    write_whole(path, "".join(lines).encode())
