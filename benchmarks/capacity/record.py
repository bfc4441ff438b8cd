"""Keeps what was measured, and reads it again: one JSON file."""

import statistics
from dataclasses import dataclass
from pathlib import Path

from pydantic import TypeAdapter, ValidationError

from benchmarks.capacity.costs import Cell, fit
from benchmarks.capacity.replica import Replica
from benchmarks.errors import BenchmarkError

MEASURED = Path(__file__).parent / "measured.json"


@dataclass(frozen=True, slots=True)
class Handling:
    """What a request costs outside of its pass, in seconds.

    Args:
        loop: processor time of the thread that reads requests and writes answers.
        client: processor time of the client.
        idle: the median answer of an idle replica, one request after the other.
    """

    loop: float
    client: float
    idle: float


@dataclass(frozen=True, slots=True)
class Load:
    """Answers of the real service at one rate.

    Args:
        share: of saturation.
        rate: requests a second that were sent.
        requests: that were sent.
        seed: of their moments.
        p50: median seconds from when a request was due until its answer.
        p99: of the slowest 1 %.
        refused: share of the requests that got 503 or 504.
        others: cores that other programs took meanwhile.
    """

    share: float
    rate: float
    requests: int
    seed: int
    p50: float
    p99: float
    refused: float
    others: float


@dataclass(frozen=True, slots=True)
class Repetition:
    """One run against the real service.

    Args:
        saturation: answers a second when each connection asks again at once.
        others: cores that other programs took meanwhile.
        handling: of a request.
        loads: at shares of the saturation.
    """

    saturation: float
    others: float
    handling: Handling
    loads: tuple[Load, ...]


@dataclass(frozen=True, slots=True)
class Measured:
    """Everything that was measured on one machine.

    Args:
        machine: in a line.
        date: of the measurement.
        cores: of the service.
        dtype: that the real service computed in.
        deadline: seconds that a request of the check has.
        lengths: tokens of the texts that the check sends.
        cells: passes, by data type.
        repetitions: of the check.
    """

    machine: str
    date: str
    cores: int
    dtype: str
    deadline: float
    lengths: tuple[int, ...]
    cells: dict[str, tuple[Cell, ...]]
    repetitions: tuple[Repetition, ...]


# A figure counts if other programs took less than this, in cores; else it tells of them.
MOST_OTHERS = 0.15

_ADAPTER = TypeAdapter(Measured)


def read(path: Path) -> Measured:
    """Reads a record.

    Args:
        path: of the file.

    Raises:
        BenchmarkError: it cannot be read, or is no record.
    """
    try:
        return _ADAPTER.validate_json(path.read_bytes())
    except OSError as error:
        raise BenchmarkError(f"{path}: cannot be read: {error.strerror}") from error
    except ValidationError as error:
        first = error.errors()[0]
        place = ".".join(map(str, first["loc"])) or "the file"
        raise BenchmarkError(
            f"{path}: is no record of make capacity: {place}: {first['msg']}"
        ) from error


def write(measured: Measured, path: Path) -> None:
    """Writes a record, whole or not at all.

    Args:
        measured: to keep.
        path: of the file; its folder is there.
    """
    aside = path.with_name(f"{path.name}.new")
    aside.write_bytes(_ADAPTER.dump_json(measured, indent=1) + b"\n")
    aside.replace(path)


def modelled(measured: Measured, dtype: str, *, client: bool = False) -> Replica:
    """Makes the model of a replica from what was measured.

    Args:
        measured: with at least one repetition.
        dtype: of its passes.
        client: whether the client runs on the same cores, as in the check.

    Raises:
        BenchmarkError: this type was not measured.
    """
    if dtype not in measured.cells:
        known = ", ".join(measured.cells)
        raise BenchmarkError(f"--dtype {dtype}: was not measured; choose one of {known}")
    runs = [run.handling for run in measured.repetitions]
    loop = statistics.median([run.loop for run in runs])
    own = statistics.median([run.client for run in runs])
    lengths = measured.lengths
    typical = sum(lengths) / len(lengths)
    team = fit(measured.cells[measured.dtype]).team.seconds(typical, typical**2)
    idle = statistics.median([run.idle for run in runs])
    return Replica(
        measured.cores,
        fit(measured.cells[dtype]),
        loop,
        unexplained=max(0.0, idle - team - loop - own),
        client=own if client else 0.0,
    )
