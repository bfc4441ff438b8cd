"""Defines what an engine is, and what engines have in common."""

from collections import Counter, deque
from collections.abc import Collection, Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Protocol

from scoring.errors import EngineError
from scoring.output.manifest import UnitRecord

MOST_ENDS = 3  # of workers, by one unit, or for each worker while models load
#: the first message of a local worker, once it has loaded the model
READY = ("ready", None)
UNITS_AHEAD = 2  # one is computed, the next one is read


@dataclass(frozen=True, slots=True)
class Job:
    """Everything that a worker needs besides the number of a unit; `manifest` is JSON."""

    manifest: str
    output: str
    checkpoint: str
    device: str
    dtype: str
    threads: int


@dataclass(frozen=True, slots=True)
class UnitFailure:
    """A unit that has no part, and why; `stops` if the other units would fail as well."""

    number: int
    message: str
    stops: bool = False


Result = UnitRecord | UnitFailure
Message = tuple[str, Any]


class Engine(Protocol):
    """Runs the units of a job on workers.

    A worker that ends is replaced, and its units are tried again; a unit that ends several workers
    fails.
    """

    def run(self, job: Job, numbers: Sequence[int]) -> Iterator[Result]:
        """Runs the units with these numbers.

        Yields:
            The result of each unit, as they end. After a failure that stops, no more.

        Raises:
            EngineError: no worker can start.
        """


class Backlog:
    """The units that no worker has, and how many workers each unit has ended.

    A unit that has ended a worker goes to a worker that has no other, so that it is clear which
    unit ends workers.
    """

    def __init__(self, numbers: Sequence[int], workers: int) -> None:
        self._left = deque(numbers)
        self._ends: Counter[int] = Counter()
        self._most_unloaded = MOST_ENDS * workers
        self._unloaded = 0  # workers in a row

    def __len__(self) -> int:
        return len(self._left)

    def take(self, held: Collection[int] = ()) -> int | None:
        """Returns a unit for a worker that has these units; None if there is none."""
        if not self._left or (held and {self._left[0], *held} & self._ends.keys()):
            return None
        return self._left.popleft()

    def note_progress(self) -> None:
        """Notes that a worker has loaded the model or sent a result."""
        self._unloaded = 0

    def put_back(
        self, numbers: Sequence[int], workers: str, why: str, *, loaded: bool
    ) -> UnitFailure | None:
        """Takes back units of an ended worker; returns the failure of one that ended too many.

        Raises:
            EngineError: workers end again and again before they have loaded the model.
        """
        if not loaded:
            self._left.extendleft(reversed(numbers))
            self._unloaded += 1
            if self._unloaded >= self._most_unloaded:
                raise EngineError(
                    f"{self._unloaded} {workers} in a row ended before they had loaded the model, "
                    f"the last {why}: free some memory, or try fewer --workers"
                )
            return None
        self._ends.update(numbers)
        if len(numbers) == 1 and self._ends[numbers[0]] >= MOST_ENDS:
            message = f"part {numbers[0]}: {MOST_ENDS} {workers} were ended by it, the last {why}"
            return UnitFailure(numbers[0], message)
        self._left.extendleft(reversed(numbers))
        return None


def to_message(result: Result) -> Message:
    """Returns a result as a worker sends it."""
    if isinstance(result, UnitFailure):
        return "failure", asdict(result)
    return "record", result.model_dump(mode="json")


def from_message(message: Message) -> Result:
    """Returns the result that a worker sent; raises EngineError if the worker cannot start."""
    kind, content = message
    if kind == "error":
        raise EngineError(content)
    return UnitFailure(**content) if kind == "failure" else UnitRecord(**content)
