"""Runs the parts of a job as actors on a Ray cluster, or on a cluster of one node that it starts.

Ray starts the actors and reports when one is lost. It gets no text: an actor reads its parts.
"""

import logging
import os
import shutil
import signal
import socket
import tempfile
from collections.abc import Callable, Generator, Iterator, Sequence
from concurrent.futures import Future
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

from model.cli.signals import Interruption, noted_signals
from scoring.engines.base import Score, run_parts
from scoring.errors import ScoringError
from scoring.parts import Job, Result, load, score_part
from scoring.stores import is_url

_SECONDS_TO_CONNECT = 10.0


class RayEngine:
    """Runs parts on a cluster.

    Args:
        address: cluster address for `ray.init`; None starts a cluster on this machine.
        workers: actor count; None: as many as the cluster has room for.
    """

    def __init__(self, job: Job, *, address: str | None, workers: int | None) -> None:
        self._job = job
        if not is_url(job.output):
            self._job = replace(job, output=str(Path(job.output).resolve()))
        self._address = address
        self._workers = workers
        self.ended: tuple[type[Exception], ...] = ()
        self._caught: Callable[[], int | None] = lambda: None

    def run(self, numbers: Sequence[int]) -> Generator[Result, None, None]:
        """Runs parts; see `run_parts`."""
        if not numbers:
            return
        # Its calls do not survive an exception of a handler, and connecting replaces a handler.
        with suppress(Interruption), noted_signals() as first:
            ray = _connect(self._address)
            try:
                with noted_signals() as second:
                    self._caught = lambda: first() or second()
                    yield from self._run(ray, numbers)
            finally:
                ray.shutdown()
        if (number := self._caught()) is not None:
            signal.raise_signal(number)

    def _run(self, ray: Any, numbers: Sequence[int]) -> Iterator[Result]:  # noqa: ANN401
        self.ended = (ray.exceptions.RayError,)
        needs = {"num_cpus": self._job.threads}
        if self._job.device == "cuda":
            needs["num_gpus"] = 1
        self._actor = ray.remote(max_restarts=0, **needs)(PartActor)
        folder = Path(self._job.checkpoint)
        files = {path.name: path.read_bytes() for path in folder.iterdir() if path.is_file()}
        self._files = ray.put((folder.name, files))
        yield from run_parts(self, numbers, processes=self._workers or _room(ray, needs))

    def check(self) -> None:
        """Ends the run if a signal came."""
        if (number := self._caught()) is not None:
            raise Interruption(number, "")

    def start(self, index: int) -> tuple[Score, Future[str | None]]:
        """Starts an actor."""
        del index
        actor = self._actor.remote()
        loading = actor.load.remote(self._job, self._files, str(Path.cwd()))
        return lambda *numbers: actor.score.remote(*numbers).future(), loading.future()


def _connect(address: str | None) -> Any:  # noqa: ANN401
    """Connects to a cluster, or starts one."""
    os.environ["RAY_USAGE_STATS_ENABLED"] = "0"
    # An actor's threads are set by its worker.
    os.environ.setdefault("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0")
    import ray

    if address is not None:
        _check_reachable(address)
    try:
        ray.init(
            address=address or "local",
            include_dashboard=False if address is None else None,
            log_to_driver=False,
            logging_level=logging.ERROR,
        )
    except (ConnectionError, RuntimeError, ValueError, OSError) as error:
        reason = str(error).strip().partition("\n")[0].removesuffix(".")
        raise ScoringError(f"{_named(address)}: {reason}") from error
    return ray


def _named(address: str | None) -> str:
    return "--engine ray" if address is None else f"--ray-address {address}"


def _check_reachable(address: str) -> None:
    """Ray itself asks for minutes before it gives up."""
    host, _, port = address.removeprefix("ray://").rpartition(":")
    if not host or not port.isdecimal():
        return
    try:
        socket.create_connection((host, int(port)), timeout=_SECONDS_TO_CONNECT).close()
    except OSError as error:
        raise ScoringError(
            f"{_named(address)}: nothing answers there ({error.strerror or error}): give the "
            "address that `ray start --head` has printed"
        ) from error


def _room(ray: Any, needs: dict[str, int]) -> int:  # noqa: ANN401
    """Returns how many actors the cluster has room for, at least one."""
    has = ray.cluster_resources()
    return max(1, min(int(has.get(name[4:].upper(), 0)) // need for name, need in needs.items()))


class PartActor:
    """Runs on a node: holds a loaded model, and scores parts."""

    def load(self, job: Job, files: tuple[str, dict[str, bytes]], folder: str) -> str | None:
        """Loads the model, or returns why that fails.

        Args:
            files: name and files of the checkpoint folder, so that nodes need not share it.
            folder: the working folder of the driver, to which input paths are relative.
        """
        if Path(folder).is_dir():
            os.chdir(folder)
        name, contents = files
        scratch = Path(tempfile.mkdtemp(prefix="headlight-"))
        try:
            checkpoint = scratch / name
            checkpoint.mkdir()
            for file, content in contents.items():
                (checkpoint / file).write_bytes(content)
            return load(replace(job, checkpoint=str(checkpoint)))
        finally:
            shutil.rmtree(scratch)

    def score(self, *numbers: int) -> Result:
        """Scores a part; see `score_part`."""
        return score_part(*numbers)
