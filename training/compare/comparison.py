"""Holds the results of a comparison, computes means and spreads, and reads and writes JSON."""

import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from pydantic import TypeAdapter

from model.checkpoint.records import DataSource
from training.fit.rows import LossAndAccuracy
from training.measure.history import Measurement


@dataclass(frozen=True, slots=True)
class VariantRun:
    """One run of a variant, measured in evaluation mode at its end; some have no epochs."""

    seed: int
    seconds: float
    training: LossAndAccuracy
    validation: LossAndAccuracy
    history: tuple[Measurement, ...]

    @property
    def gap(self) -> float:
        """Training accuracy minus validation accuracy: how far the run overfits."""
        return self.training.accuracy - self.validation.accuracy

    @property
    def best(self) -> Measurement | None:
        """The epoch with the least validation loss."""
        return min(self.history, key=lambda point: point.validation_loss, default=None)


@dataclass(frozen=True, slots=True)
class Outcome:
    """All runs of a variant."""

    name: str
    title: str
    parameters: int
    runs: tuple[VariantRun, ...]

    def spread(self, figure: Callable[[VariantRun], float]) -> "Spread":
        """Computes mean and standard deviation over the runs."""
        return spread([figure(run) for run in self.runs])


@dataclass(frozen=True, slots=True)
class Comparison:
    """A whole comparison."""

    command: str
    machine: str
    sources: tuple[DataSource, ...]
    hold_out: str
    training_rows: int
    validation_rows: int
    epochs: int
    outcomes: tuple[Outcome, ...]


@dataclass(frozen=True, slots=True)
class Spread:
    """A mean over runs and their standard deviation."""

    mean: float
    deviation: float | None


def spread(values: Sequence[float]) -> Spread:
    """Computes mean and sample standard deviation."""
    deviation = statistics.stdev(values) if len(values) > 1 else None
    return Spread(statistics.fmean(values), deviation)


def to_json(comparison: Comparison) -> str:
    """Writes the comparison as indented JSON."""
    return TypeAdapter(Comparison).dump_json(comparison, indent=1).decode() + "\n"
