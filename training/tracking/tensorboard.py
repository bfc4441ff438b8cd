"""Writes a run to event files of TensorBoard, by the writer that torch has."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from torch.utils.tensorboard import SummaryWriter
from torch.utils.tensorboard.summary import hparams

from training.errors import RecipeError
from training.measure.history import Measurement
from training.tracking.logs import STEP_LOSS, STEP_RATE, Parameter, epoch_values, final_names

_SECONDS_BETWEEN_FLUSHES = 10


class TensorBoardLog:
    """A run in a folder of its own."""

    def __init__(self, folder: Path, *, first_step: int) -> None:
        self._first_step = first_step
        self._parameters: dict[str, Parameter] = {}
        try:
            self._writer: Any = SummaryWriter(  # torch types its file writer as None
                str(folder), purge_step=first_step, flush_secs=_SECONDS_BETWEEN_FLUSHES
            )
        except OSError as error:
            raise RecipeError(
                f"--log-to tensorboard: {folder} cannot be written: {error.strerror or error}"
            ) from error

    def begin(self, parameters: Mapping[str, Parameter]) -> None:
        """Writes the parameters, for the table of hyperparameters."""
        self._parameters = dict(parameters)
        experiment, start, _ = self._table()
        self._writer.file_writer.add_summary(experiment)
        self._writer.file_writer.add_summary(start)
        self._writer.flush()

    def step(self, step: int, loss: float, learning_rate: float) -> None:
        """Writes loss and rate of a step."""
        self._writer.add_scalar(STEP_LOSS, loss, step)
        self._writer.add_scalar(STEP_RATE, learning_rate, step)

    def epoch(self, measurement: Measurement) -> None:
        """Writes an epoch, unless it is there already."""
        if measurement.step < self._first_step:
            return
        for name, value in epoch_values(measurement).items():
            self._writer.add_scalar(name, value, measurement.step)
        self._writer.flush()

    def end(self, figures: Mapping[str, float], *, step: int) -> None:
        """Writes the figures, and that the run has ended."""
        for name, value in figures.items():
            self._writer.add_scalar(name, value, step)
        self._writer.file_writer.add_summary(self._table()[2])

    def close(self) -> None:
        """Writes what is left."""
        self._writer.close()

    def _table(self) -> tuple[object, object, object]:
        summaries: tuple[object, object, object] = hparams(
            self._parameters, dict.fromkeys(final_names(), 0.0)
        )
        return summaries
