"""Says what an engine is given, and what it gives back."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol

from scoring.output.manifest import UnitRecord


@dataclass(frozen=True, slots=True)
class Job:
    """Everything that a worker needs besides the number of a unit.

    Args:
        manifest: the job, as JSON.
        output: the folder of the output.
        checkpoint: the folder of the model.
        device: of the model; `auto`, `cpu`, `cuda` or `cuda:N`.
        dtype: the type that the manifest names.
        threads: of a worker.
    """

    manifest: str
    output: str
    checkpoint: str
    device: str
    dtype: str
    threads: int


@dataclass(frozen=True, slots=True)
class UnitFailure:
    """A unit that has no part.

    Args:
        number: of the unit.
        message: what is wrong, and what to do.
        stops: whether the other units would meet the same fault.
    """

    number: int
    message: str
    stops: bool = False


class Engine(Protocol):
    """Gives the units of a job to workers.

    A worker that ends is replaced, and its unit is given out again; a unit that ends several
    workers is a fault.
    """

    def run(self, job: Job, numbers: Sequence[int]) -> Iterator[UnitRecord | UnitFailure]:
        """Runs units.

        Args:
            job: what the workers need.
            numbers: of the units.

        Yields:
            The record or the fault of each unit, as they end. After a fault that stops, no more.

        Raises:
            EngineError: no worker can start.
        """
