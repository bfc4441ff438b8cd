"""The course of a run: from one measurement an epoch to a file of JSON lines, and back."""

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from model.files import write_whole


@dataclass(frozen=True, slots=True)
class Measurement:
    """Where a run stood at the end of an epoch.

    Args:
        step: optimizer steps done.
        epoch: epochs done.
        training_loss: mean over the steps of the epoch, dropout and smoothing included; or, if the
            run was told so, measured as that of the validation rows.
        training_accuracy: likewise.
        validation_loss: mean negative log-likelihood of the validation rows, in nats.
        validation_accuracy: share of validation rows that are right.
        learning_rate: of the last step.
        seconds: of training, since the start and over all its parts.
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
    """Writes one JSON object a line, beside its place, and renames.

    Raises:
        OSError: the file could not be written.
    """
    lines = [json.dumps(asdict(measurement)) + "\n" for measurement in history]
    write_whole(path, "".join(lines).encode())


def read_history(path: Path) -> list[Measurement]:
    """Reads what `write_history` wrote."""
    lines = path.read_text(encoding="utf-8").splitlines()
    return [Measurement(**json.loads(line)) for line in lines]
