"""Runs units in processes of this machine, each with threads or a GPU of its own.

Driver and worker exchange lines of JSON over pipes. A worker reads the job, then numbers of units,
and writes the result of each. It ends when its input ends, or with its parent.
"""

import json
import os
import queue
import subprocess
import sys
import threading
from collections import deque
from collections.abc import Collection, Iterator, Sequence
from contextlib import suppress
from dataclasses import asdict
from typing import IO

from scoring.engines.base import READY, UNITS_AHEAD, Backlog, Job, Result, UnitFailure, from_message
from scoring.errors import EngineError


class LocalEngine:
    """Runs units in `workers` processes, which take turns on the GPUs, if there are any."""

    def __init__(self, *, workers: int, gpus: Sequence[int] = ()) -> None:
        self._workers = workers
        self._gpus = gpus

    def run(self, job: Job, numbers: Sequence[int]) -> Iterator[Result]:
        """Runs units; see `Engine`."""
        work = _Work(numbers, self._workers)
        threads: list[tuple[threading.Thread, _Supervisor]] = []
        try:  # a signal may come from here on
            for index in range(min(self._workers, len(numbers))):
                gpu = self._gpus[index % len(self._gpus)] if self._gpus else None
                supervisor = _Supervisor(job, gpu, work)
                thread = threading.Thread(target=supervisor.run, daemon=True)
                threads.append((thread, supervisor))
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
            for thread, supervisor in threads:
                supervisor.end()
                if thread.ident is not None:
                    thread.join()


class _Work:
    """The backlog and the results, shared by the threads."""

    def __init__(self, numbers: Sequence[int], workers: int) -> None:
        self.results: queue.SimpleQueue[Result | EngineError] = queue.SimpleQueue()
        self._backlog = Backlog(numbers, workers)
        self._open = len(numbers)
        self._is_closed = False
        self._changed = threading.Condition()

    def take(self, held: Collection[int] = (), *, wait: bool = False) -> int | None:
        """Returns a unit; None if there is none now, or, after waiting, never again."""
        with self._changed:
            while wait and not self._backlog and self._open and not self._is_closed:
                self._changed.wait()
            return None if self._is_closed else self._backlog.take(held)

    def settle(self, result: Result) -> None:
        """Notes the result of a unit."""
        with self._changed:
            self._open -= 1
            self._changed.notify_all()
        self.results.put(result)

    def note_progress(self) -> None:
        """Notes that a worker has loaded the model or sent a result."""
        with self._changed:
            self._backlog.note_progress()

    def put_back(self, numbers: Sequence[int], why: str, *, loaded: bool) -> None:
        """Takes back the units of a worker that has ended."""
        with self._changed:
            try:
                failure = self._backlog.put_back(numbers, "workers", why, loaded=loaded)
            except EngineError as error:
                self._is_closed = True
                self.results.put(error)
                return
            finally:
                self._changed.notify_all()
        if failure is not None:
            self.settle(failure)

    def close(self) -> None:
        """Hands out nothing more."""
        with self._changed:
            self._is_closed = True
            self._changed.notify_all()


class _Supervisor:
    """Keeps one worker busy, and replaces it if it ends; runs in a thread of its own."""

    def __init__(self, job: Job, gpu: int | None, work: _Work) -> None:
        self._job = job
        self._gpu = gpu
        self._work = work
        self._process: subprocess.Popen[str] | None = None
        self._is_over = False
        self._is_loaded = False

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
        held = deque([number])
        self._is_loaded = False
        with self._start() as process:
            self._process = process
            if self._is_over:
                process.kill()
            try:
                self._talk(process, held)
            except (OSError, ValueError):
                process.kill()  # it has ended, or writes what no worker writes
            if process.stdin is not None:
                with suppress(OSError):  # what an ended worker has not read is tried once more
                    process.stdin.close()
        if held and not self._is_over:
            status = process.returncode
            why = f"by signal {-status}" if status < 0 else f"with status {status}"
            self._work.put_back(list(held), why, loaded=self._is_loaded)

    def _talk(self, process: subprocess.Popen[str], held: deque[int]) -> None:
        if process.stdin is None or process.stdout is None:
            raise ValueError("a worker without pipes")
        _send(process.stdin, json.dumps(asdict(self._job)), held[0])
        while held:
            while len(held) < UNITS_AHEAD and (number := self._work.take(held)) is not None:
                held.append(number)
                _send(process.stdin, number)
            line = process.stdout.readline()
            if not line:
                return
            message = json.loads(line)
            self._work.note_progress()
            if tuple(message) == READY:
                self._is_loaded = True
                continue
            try:
                result = from_message(message)
            except EngineError as error:
                held.clear()
                self._work.results.put(error)
                return
            held.remove(result.number)
            self._work.settle(result)
            if not held and (number := self._work.take(wait=True)) is not None:
                held.append(number)
                _send(process.stdin, number)

    def _start(self) -> subprocess.Popen[str]:
        changes = {"OMP_NUM_THREADS": str(self._job.threads)}
        if self._gpu is not None:
            changes["CUDA_VISIBLE_DEVICES"] = str(self._gpu)
        return subprocess.Popen(
            [sys.executable, "-m", "scoring.engines.local_worker"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env={**os.environ, **changes},
            process_group=0,  # Ctrl+C reaches only the driver, also while a worker imports
            text=True,
            encoding="utf-8",
        )


def _send(pipe: IO[str], *lines: object) -> None:
    pipe.writelines(f"{line}\n" for line in lines)
    pipe.flush()
