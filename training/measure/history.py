"""Writes the history of a run, one measurement for each epoch, as JSON lines."""

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from model.atomic import write_whole


@dataclass(frozen=True, slots=True)
class LossAndAccuracy:
    """Loss (in nats) and accuracy on some rows, in evaluation mode.

    The loss is that at the temperature that is best for these rows.
    """

    loss: float
    accuracy: float


@dataclass(frozen=True, slots=True)
class Measurement:
    """Losses and accuracies at the end of an epoch.

    Args:
        training_loss: mean over the steps of the epoch, with dropout and smoothing; or measured
            like the validation loss, if the run measures its training rows.
        validation_loss: mean negative log-likelihood of the validation rows, in nats, at the
            temperature that is best for them, since one is fitted in the end.
        is_best: whether these weights were the best until then.
    """

    step: int
    epoch: int
    training_loss: float
    training_accuracy: float
    validation_loss: float
    validation_accuracy: float
    learning_rate: float
    seconds: float
    is_best: bool = False


def write_history(history: Sequence[Measurement], path: Path) -> None:
    """Writes one JSON object for each line, to a temporary file that is then renamed."""
    lines = [json.dumps(asdict(measurement)) + "\n" for measurement in history]
    write_whole(path, "".join(lines).encode())
