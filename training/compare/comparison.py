"""What a comparison found: runs of each variant, their means and spreads; to JSON and back."""

import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from pydantic import TypeAdapter

from training.fit.rows import EvalResult
from training.measure.history import Measurement


@dataclass(frozen=True, slots=True)
class Run:
    """One run of a variant.

    Args:
        seed: of everything random in it.
        seconds: of training, without measuring.
        training: how it does on the training rows in the end, in evaluation mode.
        validation: how it does on the validation rows.
        history: one measurement an epoch; none for what is not trained in epochs.
    """

    seed: int
    seconds: float
    training: EvalResult
    validation: EvalResult
    history: tuple[Measurement, ...]

    @property
    def gap(self) -> float:
        """Training accuracy less validation accuracy: what was learnt by heart."""
        return self.training.accuracy - self.validation.accuracy

    @property
    def best(self) -> Measurement | None:
        """Where the validation loss was least."""
        return min(self.history, key=lambda point: point.validation_loss, default=None)


@dataclass(frozen=True, slots=True)
class Outcome:
    """All runs of a variant.

    Args:
        name: of the variant.
        title: what sets it apart.
        parameters: numbers that training changes.
        runs: one for each seed.
    """

    name: str
    title: str
    parameters: int
    runs: tuple[Run, ...]

    def spread(self, figure: Callable[[Run], float]) -> "Spread":
        """Mean and standard deviation over the runs.

        Args:
            figure: of one run.
        """
        return spread([figure(run) for run in self.runs])


@dataclass(frozen=True, slots=True)
class Source:
    """A file that rows came from.

    Args:
        file: its name, with the folder that holds it.
        rows: that were read from it.
        sha256: of the file.
    """

    file: str
    rows: int
    sha256: str


@dataclass(frozen=True, slots=True)
class Comparison:
    """A whole comparison.

    Args:
        command: what repeats it, without the folders of this machine.
        machine: processor, threads and versions.
        sources: files of the rows.
        hold_out: which rows were held out: `last`, `random`, or `files`.
        training_rows: how many were learnt from.
        validation_rows: how many were held out.
        epochs: of each network.
        outcomes: of the variants, in their order.
    """

    command: str
    machine: str
    sources: tuple[Source, ...]
    hold_out: str
    training_rows: int
    validation_rows: int
    epochs: int
    outcomes: tuple[Outcome, ...]


@dataclass(frozen=True, slots=True)
class Spread:
    """A mean over runs and how far they lie apart.

    Args:
        mean: of the runs.
        deviation: sample standard deviation; None of a single run.
    """

    mean: float
    deviation: float | None


def spread(values: Sequence[float]) -> Spread:
    """Mean and sample standard deviation.

    Args:
        values: at least one.
    """
    deviation = statistics.stdev(values) if len(values) > 1 else None
    return Spread(statistics.fmean(values), deviation)


_ADAPTER = TypeAdapter(Comparison)


def to_json(comparison: Comparison) -> str:
    """The comparison as JSON, indented.

    Args:
        comparison: the whole of it.
    """
    return _ADAPTER.dump_json(comparison, indent=1).decode() + "\n"


def from_json(text: str) -> Comparison:
    """Reads what `to_json` wrote.

    Args:
        text: the JSON.

    Raises:
        pydantic.ValidationError: it is not a comparison.
    """
    return _ADAPTER.validate_json(text)
