"""Runs the parts of a job in processes of this machine, by `concurrent.futures`."""

import multiprocessing
import os
import signal
import threading
from collections.abc import Callable, Generator, Iterator, Sequence
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from typing import Any, TypeVar

from scoring.engines.base import Score, run_parts
from scoring.parts import Job, Result, load, score_part

_Answer = TypeVar("_Answer")


class LocalEngine:
    """Runs parts in `workers` processes, which take turns on the GPUs, if there are any."""

    ended: tuple[type[Exception], ...] = (BrokenProcessPool,)

    def __init__(self, job: Job, *, workers: int, gpus: Sequence[int] = ()) -> None:
        self._job = job
        self._workers = workers
        self._gpus = gpus

    def run(self, numbers: Sequence[int]) -> Generator[Result, None, None]:
        """Runs parts; see `run_parts`."""
        for name in ("OMP_NUM_THREADS", "RAYON_NUM_THREADS"):  # of the processes that start
            os.environ[name] = str(self._job.threads)
        try:
            yield from run_parts(self, numbers, processes=self._workers)
        finally:
            for process in multiprocessing.active_children():
                process.kill()  # what it computes is lost, its parts stay whole

    def start(self, index: int) -> tuple[Score, Future[str | None]]:
        """Starts a process in a pool of its own, on the next GPU.

        So it is clear which parts an ended process had.
        """
        job = self._job
        if self._gpus:
            job = replace(job, device=f"cuda:{self._gpus[index % len(self._gpus)]}")
        context = multiprocessing.get_context("spawn")
        with _inherited_mask():  # also by the process that tracks what they share
            pool = ProcessPoolExecutor(1, mp_context=context, initializer=_end_with_parent)
        return partial(_call, pool, score_part), _call(pool, load, job)

    def check(self) -> None:
        """Does nothing: a signal raises at once."""


def _call(
    pool: ProcessPoolExecutor,
    function: Callable[..., _Answer],
    *arguments: Any,  # noqa: ANN401
) -> Future[_Answer]:
    try:
        with _inherited_mask():
            return pool.submit(function, *arguments)
    except BrokenProcessPool as error:  # it has ended since its last answer
        failed: Future[_Answer] = Future()
        failed.set_exception(error)
        return failed


@contextmanager
def _inherited_mask() -> Iterator[None]:
    """Lets Ctrl+C and a closed terminal reach only the driver: what is blocked is inherited."""
    mask = getattr(signal, "pthread_sigmask", None)  # not on Windows
    before = mask and mask(signal.SIG_BLOCK, {signal.SIGINT, signal.SIGHUP})
    try:
        yield
    finally:
        if mask is not None:
            mask(signal.SIG_SETMASK, before)


def _end_with_parent() -> None:
    """Ends this process once its parent has ended, also if that was killed."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # where it could not be blocked
    parent = multiprocessing.parent_process()

    def wait() -> None:
        if parent is not None:
            parent.join()
        os._exit(1)

    threading.Thread(target=wait, daemon=True).start()
