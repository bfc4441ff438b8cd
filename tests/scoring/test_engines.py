"""Which process gets which part, and what happens when processes end; without processes."""

from concurrent.futures import Future

import pytest

from scoring.engines.base import Score, run_parts
from scoring.errors import ScoringError
from scoring.manifest import UnitRecord
from scoring.parts import Result, UnitFailure


class LostError(Exception):
    """Its process has ended."""


class Fake:
    """An engine and its only process; notes the calls, and ends where it is told to."""

    ended: tuple[type[Exception], ...] = (LostError,)

    def __init__(
        self,
        *,
        deadly: int | None = None,
        loads: str | type[LostError] | None = None,
        fails: UnitFailure | None = None,
    ) -> None:
        self.calls: list[tuple[int, ...]] = []
        self.starts = 0
        self._deadly = deadly
        self._loads = loads
        self._fails = fails

    def start(self, index: int) -> tuple[Score, Future[str | None]]:
        assert index == 0
        self.starts += 1
        future: Future[str | None] = Future()
        if isinstance(self._loads, type):
            future.set_exception(self._loads())
        else:
            future.set_result(self._loads)
        return self.score, future

    def score(self, *numbers: int) -> Future[Result]:
        self.calls.append(numbers)
        future: Future[Result] = Future()
        if self._deadly in numbers:
            future.set_exception(LostError())
        else:
            future.set_result(self._fails or record(numbers[0]))
        return future

    def check(self) -> None:
        """Does nothing."""


def record(number: int) -> UnitRecord:
    return UnitRecord(
        number=number,
        rows_in=0,
        rows_out=0,
        bad=(),
        truncated=0,
        tokens=0,
        labels={},
        part="",
        size=0,
        sha256="",
    )


def test_the_next_part_is_read_while_one_is_scored() -> None:
    engine = Fake()
    assert list(run_parts(engine, [3, 4, 5], processes=1)) == [record(3), record(4), record(5)]
    assert engine.calls == [(3, 4), (4, 5), (5,)]


def test_a_part_that_ends_three_processes_fails_and_the_others_are_written() -> None:
    engine = Fake(deadly=2)
    results = list(run_parts(engine, [1, 2, 3], processes=1))
    assert results == [record(1), UnitFailure(2, "part 2: 3 workers were ended by it"), record(3)]
    # Part 1 is alone as long as it may be what ends processes.
    assert engine.calls == [(1, 2), (1,), (2,), (2,), (3,)]
    assert engine.starts == 4


def test_processes_that_end_while_they_load_the_model_end_the_job() -> None:
    engine = Fake(loads=LostError)
    message = "3 workers in a row ended before they had loaded the model: free some memory"
    with pytest.raises(ScoringError, match=message):
        list(run_parts(engine, [1, 2], processes=1))
    assert engine.starts == 3


def test_a_model_that_cannot_be_loaded_ends_the_job() -> None:
    with pytest.raises(ScoringError, match=r"^--device: it is gone$"):
        list(run_parts(Fake(loads="--device: it is gone"), [1, 2], processes=1))


def test_an_output_that_cannot_be_written_ends_the_job() -> None:
    full = UnitFailure(1, "the disk is full", stops=True)
    assert list(run_parts(Fake(fails=full), [1, 2, 3], processes=1)) == [full]
