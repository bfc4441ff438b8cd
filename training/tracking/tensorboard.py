"""Writes a run to event files of TensorBoard, by the writer that torch has."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from torch.utils.tensorboard import SummaryWriter
from torch.utils.tensorboard.summary import hparams

from training.errors import RecipeError

_SECONDS_BETWEEN_FLUSHES = 10


class TensorBoardTracker:
    """A run in a folder of its own; steps from `first_step` on replace those of the files there."""

    def __init__(self, folder: Path, first_step: int) -> None:
        try:
            self._writer: Any = SummaryWriter(  # torch types its file writer as None
                str(folder), purge_step=first_step, flush_secs=_SECONDS_BETWEEN_FLUSHES
            )
        except OSError as error:
            raise RecipeError(
                f"--log-to tensorboard: {folder} cannot be written: {error.strerror or error}"
            ) from error

    def begin(self, parameters: Mapping[str, object], final: Sequence[str]) -> None:
        """Writes the table of hyperparameters."""
        experiment, start, self._end = hparams(dict(parameters), dict.fromkeys(final, 0.0))
        self._writer.file_writer.add_summary(experiment)
        self._writer.file_writer.add_summary(start)
        self._writer.flush()

    def log(self, values: Mapping[str, float], step: int) -> None:
        """Writes values of a step."""
        for name, value in values.items():
            self._writer.add_scalar(name, value, step)

    def close(self, *, has_ended: bool) -> None:
        """Writes what is left, and that the run has ended."""
        if has_ended:
            self._writer.file_writer.add_summary(self._end)
        self._writer.close()
