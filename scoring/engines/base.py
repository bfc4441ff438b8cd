"""Hands out the parts of a job to processes, replaces those that end, and tries again."""

from collections import Counter, deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, wait
from dataclasses import dataclass
from typing import Any, Protocol

from scoring.errors import ScoringError
from scoring.parts import Result, UnitFailure

_MOST_ENDS = 3  # of processes, by one part, or for each process while models load
# Until signals are looked at.
_SECONDS_TO_WAIT = 0.5


#: scores a part in a process that does one at a time, and reads the following one meanwhile
Score = Callable[..., Future[Result]]


class Engine(Protocol):
    """Starts processes; `ended` are the errors of calls whose process has ended."""

    ended: tuple[type[Exception], ...]

    def start(self, index: int) -> tuple[Score, Future[str | None]]:
        """Starts the process with an index from 0; returns what scores, and its `load`."""

    def check(self) -> None:
        """Raises what a signal asks for."""


@dataclass(slots=True)
class _Member:
    """A process and its parts: the one at work, and the one that it reads meanwhile."""

    index: int
    score: Score
    parts: deque[int]
    is_loaded: bool = False


def run_parts(engine: Engine, numbers: Sequence[int], *, processes: int) -> Iterator[Result]:
    """Runs parts; a part whose process ends is tried again in another one.

    Yields:
        The result of each part, as they end. After a failure that stops, no more.

    Raises:
        ScoringError: no process can load the model.
    """
    run = _Run(engine, numbers)
    for index in range(min(processes, len(numbers))):
        run.start(index)
    yield from run.results(most_unloaded=_MOST_ENDS * processes)


class _Run:
    """The parts that no process has, and the calls that are not answered yet."""

    def __init__(self, engine: Engine, numbers: Sequence[int]) -> None:
        self._engine = engine
        self._left = deque(numbers)
        self._open = len(numbers)
        self._ends: Counter[int] = Counter()  # of processes, by each part
        self._unloaded = 0  # processes in a row that ended before they had loaded the model
        self._calls: dict[Future[Any], _Member] = {}
        self._idle: list[_Member] = []

    def start(self, index: int) -> None:
        """Starts a process, which loads the model first."""
        score, loading = self._engine.start(index)
        self._calls[loading] = _Member(index, score, deque())

    def results(self, *, most_unloaded: int) -> Iterator[Result]:
        """Yields results until no part is open."""
        while self._open:
            self._hand_out()
            finished, _ = wait(self._calls, _SECONDS_TO_WAIT, FIRST_COMPLETED)
            self._engine.check()
            for future in finished:
                result = self._settle(future, most_unloaded)
                if result is not None:
                    self._open -= 1
                    yield result
                    if isinstance(result, UnitFailure) and result.stops:
                        return

    def _hand_out(self) -> None:
        """Gives idle processes a part, and another to read unless one of them ended a process."""
        waiting, self._idle = self._idle, []
        for member in waiting:
            if not member.parts and not self._left:
                self._idle.append(member)
                continue
            if not member.parts:
                member.parts.append(self._left.popleft())
            number = member.parts[0]
            if self._left and not self._ends.keys() & {number, self._left[0]}:
                member.parts.append(self._left.popleft())
            self._calls[member.score(*member.parts)] = member

    def _settle(self, future: Future[Any], most_unloaded: int) -> Result | None:
        """Returns the result of a call; None if it has none, or is tried again."""
        member = self._calls.pop(future)
        try:
            result: Result | str | None = future.result()
        except self._engine.ended:
            return self._replace(member, most_unloaded)
        self._unloaded = 0
        self._idle.append(member)
        if member.is_loaded:
            member.parts.popleft()
        member.is_loaded = True
        if isinstance(result, str):
            raise ScoringError(result)
        return result

    def _replace(self, member: _Member, most_unloaded: int) -> UnitFailure | None:
        if not member.is_loaded:
            self._unloaded += 1
            if self._unloaded >= most_unloaded:
                raise ScoringError(
                    f"{self._unloaded} workers in a row ended before they had loaded the model: "
                    "free some memory, or try fewer --workers"
                )
        parts = list(member.parts)
        self._ends.update(parts)
        self.start(member.index)
        if len(parts) == 1 and self._ends[parts[0]] >= _MOST_ENDS:
            return UnitFailure(parts[0], f"part {parts[0]}: {_MOST_ENDS} workers were ended by it")
        self._left.extendleft(reversed(parts))
        return None
