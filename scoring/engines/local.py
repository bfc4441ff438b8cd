"""Runs units in processes of this machine, each with threads or a GPU of its own.

Driver and worker exchange lines of JSON over pipes. A worker reads the job, then numbers of units,
and writes a record or a fault for each. It ends when its input ends, or with its parent.
"""

import json
import os
import queue
import subprocess
import sys
import threading
from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import asdict

from scoring.engines.base import Job, UnitFailure
from scoring.errors import EngineError
from scoring.output.manifest import UnitRecord

_MOST_ENDS = 3
# One is computed, the next one is read.
_AHEAD = 2

_Result = UnitRecord | UnitFailure


class LocalEngine:
    """Runs units in processes.

    Args:
        workers: how many.
        gpus: numbers of the GPUs, which the workers take in turns; none on processors.
    """

    def __init__(self, *, workers: int, gpus: Sequence[int] = ()) -> None:
        self._workers = workers
        self._gpus = gpus

    def run(self, job: Job, numbers: Sequence[int]) -> Iterator[_Result]:
        """Runs units; see `Engine`.

        Raises:
            EngineError: no worker can start.
        """
        work = _Work(numbers)
        threads: list[tuple[threading.Thread, _Keeper]] = []
        try:  # a signal may come from here on
            for place in range(min(self._workers, len(numbers))):
                gpu = self._gpus[place % len(self._gpus)] if self._gpus else None
                keeper = _Keeper(job, gpu, work)
                thread = threading.Thread(target=keeper.run, daemon=True)
                threads.append((thread, keeper))
                thread.start()
            for _ in numbers:
                result = work.results.get()
                if isinstance(result, EngineError):
                    raise result
                yield result
                if isinstance(result, UnitFailure) and result.stops:
                    return
        finally:
            work.close()
            for thread, keeper in threads:
                keeper.end()
                if thread.ident is not None:
                    thread.join()


class _Work:
    """The units that no worker has yet, and what came of the others.

    Args:
        numbers: of all units.
    """

    def __init__(self, numbers: Sequence[int]) -> None:
        self.results: queue.SimpleQueue[_Result | EngineError] = queue.SimpleQueue()
        self._left = deque(numbers)
        # How many workers have ended with a unit. A unit that is here is given to a worker that has
        # no other, so that it is clear which unit ends workers.
        self._ends: dict[int, int] = {}
        self._open = len(numbers)
        self._is_closed = False
        self._changed = threading.Condition()

    def take(self, *, wait: bool) -> int | None:
        """Returns a unit; None if there is none now, or, after waiting, never again."""
        with self._changed:
            while wait and not self._left and self._open and not self._is_closed:
                self._changed.wait()
            return self._left.popleft() if self._left and not self._is_closed else None

    def take_beside(self, number: int) -> int | None:
        """Returns a unit for a worker that has another one; None if there is none."""
        with self._changed:
            if not self._left or {number, self._left[0]} & self._ends.keys():
                return None
            return None if self._is_closed else self._left.popleft()

    def settle(self, result: _Result) -> None:
        """Notes what came of a unit."""
        with self._changed:
            self._open -= 1
            self._changed.notify_all()
        self.results.put(result)

    def give_back(self, numbers: Sequence[int], why: str) -> None:
        """Takes back the units of a worker that has ended."""
        with self._changed:
            for number in numbers:
                self._ends[number] = self._ends.get(number, 0) + 1
            first = numbers[0]
            is_lost = len(numbers) == 1 and self._ends[first] >= _MOST_ENDS
            if not is_lost:
                self._left.extendleft(reversed(numbers))
                self._changed.notify_all()
        if is_lost:
            self.settle(
                UnitFailure(
                    first, f"part {first}: {_MOST_ENDS} workers were ended by it, the last {why}"
                )
            )

    def close(self) -> None:
        """Gives out nothing more."""
        with self._changed:
            self._is_closed = True
            self._changed.notify_all()


class _Keeper:
    """Keeps one worker busy, and replaces it if it ends; runs in a thread of its own."""

    def __init__(self, job: Job, gpu: int | None, work: _Work) -> None:
        self._job = job
        self._gpu = gpu
        self._work = work
        self._process: subprocess.Popen[str] | None = None
        self._is_over = False

    def run(self) -> None:
        while not self._is_over:
            number = self._work.take(wait=True)
            if number is None:
                return
            self._serve(number)

    def end(self) -> None:
        """Ends the worker at once; what it computes is lost, its parts stay whole."""
        self._is_over = True
        if self._process is not None:
            self._process.kill()

    def _serve(self, number: int) -> None:
        """Runs a worker until it ends, or until there are no more units."""
        given = deque([number])
        with self._start() as process:
            self._process = process
            if self._is_over:
                process.kill()
            try:
                self._talk(process, given)
            except (OSError, ValueError):
                process.kill()  # it has ended, or writes what no worker writes
            if process.stdin is not None:
                with suppress(OSError):  # what an ended worker has not read is tried once more
                    process.stdin.close()
        if given and not self._is_over:
            status = process.returncode
            why = f"by signal {-status}" if status < 0 else f"with status {status}"
            self._work.give_back(list(given), why)

    def _talk(self, process: subprocess.Popen[str], given: deque[int]) -> None:
        if process.stdin is None or process.stdout is None:
            raise ValueError("a worker without pipes")
        process.stdin.write(json.dumps(asdict(self._job)) + "\n")
        process.stdin.write(f"{given[0]}\n")
        process.stdin.flush()
        while given:
            while len(given) < _AHEAD and (number := self._work.take_beside(given[0])) is not None:
                given.append(number)
                process.stdin.write(f"{number}\n")
                process.stdin.flush()
            line = process.stdout.readline()
            if not line:
                return
            kind, content = json.loads(line)
            if kind == "error":
                given.clear()
                self._work.results.put(EngineError(content))
                return
            result = UnitFailure(**content) if kind == "fault" else UnitRecord(**content)
            given.remove(result.number)
            self._work.settle(result)
            if not given and (number := self._work.take(wait=True)) is not None:
                given.append(number)
                process.stdin.write(f"{number}\n")
                process.stdin.flush()

    def _start(self) -> subprocess.Popen[str]:
        changes = {"OMP_NUM_THREADS": str(self._job.threads)}
        if self._gpu is not None:
            changes["CUDA_VISIBLE_DEVICES"] = str(self._gpu)
        return subprocess.Popen(
            [sys.executable, "-m", "scoring.engines.local_worker"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env={**os.environ, **changes},
            process_group=0,  # Ctrl+C goes to the driver alone, also while a worker imports
            text=True,
            encoding="utf-8",
        )
