"""Runs units as actors on a Ray cluster, or on a cluster of one node that it starts.

Ray starts the actors and reports when one is lost. It gets no text: an actor reads its units.
"""

import logging
import os
import shutil
import signal
import socket
import tempfile
import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from types import FrameType
from typing import Any, Self

from scoring.engines.base import (
    UNITS_AHEAD,
    Backlog,
    Job,
    Message,
    Result,
    UnitFailure,
    from_message,
    to_message,
)
from scoring.errors import EngineError
from scoring.stores import is_url

_SECONDS_TO_CONNECT = 10.0
# Until signals are looked at.
_SECONDS_TO_WAIT = 0.5


class RayEngine:
    """Runs units on a cluster.

    Args:
        address: cluster address for `ray.init`; None starts a cluster on this machine.
        workers: actor count; None: as many as the cluster has room for.
    """

    def __init__(self, *, address: str | None, workers: int | None) -> None:
        self._address = address
        self._workers = workers

    def run(self, job: Job, numbers: Sequence[int]) -> Iterator[Result]:
        """Runs units; see `Engine`."""
        if not numbers:
            return
        with _Signals() as signals:
            ray = _connect(self._address)
            signals.hold()  # Ray has taken one of them
            try:
                needs = {"num_cpus": job.threads}
                if job.device == "cuda":
                    needs["num_gpus"] = 1
                room = _room(ray, needs)
                count = min(self._workers or room, len(numbers))
                yield from _Pool(ray, job, needs, count, signals.check).run(numbers)
            finally:
                ray.shutdown()


class _Signals:
    """Holds signals back while Ray runs: its calls do not survive an exception of a handler."""

    _NUMBERS = (signal.SIGINT, signal.SIGTERM)

    def __enter__(self) -> Self:
        self._caught: int | None = None
        self._before = {number: signal.getsignal(number) for number in self._NUMBERS}
        self.hold()
        return self

    def hold(self) -> None:
        """Notes signals from now on; only the main thread gets any."""
        if threading.current_thread() is threading.main_thread():
            for number in self._NUMBERS:
                signal.signal(number, self._note)

    def check(self) -> None:
        """Lets the handler of before have the signal that came."""
        if self._caught is not None:
            handler = self._before[signal.Signals(self._caught)]
            if callable(handler):
                handler(self._caught, None)

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if threading.current_thread() is threading.main_thread():
            for number, handler in self._before.items():
                signal.signal(number, handler)
        if kind is None:
            self.check()

    def _note(self, number: int, frame: FrameType | None) -> None:
        del frame
        self._caught = self._caught or number


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
        raise EngineError(f"{_named(address)}: {reason}") from error
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
        raise EngineError(
            f"{_named(address)}: nothing answers there ({error.strerror or error}): give the "
            "address that `ray start --head` has printed"
        ) from error


def _room(ray: Any, needs: dict[str, int]) -> int:  # noqa: ANN401
    """Returns how many actors the cluster has room for, at least one."""
    has = ray.cluster_resources()
    return max(1, min(int(has.get(name[4:].upper(), 0)) // need for name, need in needs.items()))


@dataclass(slots=True)
class _ActorState:
    """An actor and the units that it has, by the references to their results."""

    actor: Any
    started: Any  # a reference that is ready once the model is loaded; None from then on
    units: dict[Any, int] = field(default_factory=dict)


class _Pool:
    """Keeps actors busy, and replaces those that are lost."""

    def __init__(
        self,
        ray: Any,  # noqa: ANN401
        job: Job,
        needs: dict[str, int],
        count: int,
        check: Callable[[], None],
    ) -> None:
        self._ray = ray
        self._check = check
        folder = Path(job.checkpoint)
        files = {path.name: path.read_bytes() for path in folder.iterdir() if path.is_file()}
        self._files = ray.put((folder.name, files))
        output = job.output if is_url(job.output) else str(Path(job.output).resolve())
        self._job = asdict(replace(job, output=output))
        self._class = ray.remote(max_restarts=0, max_concurrency=UNITS_AHEAD, **needs)(UnitActor)
        self._actors = [self._start() for _ in range(count)]
        self._backlog = Backlog((), count)

    def run(self, numbers: Sequence[int]) -> Iterator[Result]:
        self._backlog = Backlog(numbers, len(self._actors))
        open_units = len(numbers)
        while open_units:
            for state in self._actors:
                self._assign(state)
            waiting = [
                ref
                for state in self._actors
                for ref in ([state.started] if state.started is not None else state.units)
            ]
            finished, _ = self._ray.wait(waiting, num_returns=1, timeout=_SECONDS_TO_WAIT)
            self._check()
            for ready in finished:
                for result in self._settle(ready):
                    open_units -= 1
                    yield result
                    if isinstance(result, UnitFailure) and result.stops:
                        return

    def _start(self) -> _ActorState:
        actor = self._class.remote(self._job, self._files, str(Path.cwd()))
        return _ActorState(actor, actor.ready.remote())

    def _assign(self, state: _ActorState) -> None:
        while state.started is None and len(state.units) < UNITS_AHEAD:
            number = self._backlog.take(state.units.values())
            if number is None:
                return
            state.units[state.actor.do.remote(number)] = number

    def _settle(self, ready: Any) -> Iterator[Result]:  # noqa: ANN401
        """Handles what is ready: a loaded model, the result of a unit, or the end of an actor."""
        state = next(one for one in self._actors if ready in (one.started, *one.units))
        try:
            message = self._ray.get(ready)
        except self._ray.exceptions.RayError as error:
            yield from self._replace(state, type(error).__name__)
            return
        if ready == state.started and message is None:
            state.started = None
            self._backlog.note_progress()
            return
        result = from_message(message)
        self._backlog.note_progress()
        del state.units[ready]
        yield result

    def _replace(self, state: _ActorState, why: str) -> Iterator[UnitFailure]:
        self._ray.kill(state.actor)
        failure = self._backlog.put_back(
            list(state.units.values()), "actors", f"by {why}", loaded=state.started is None
        )
        self._actors[self._actors.index(state)] = self._start()
        if failure is not None:
            yield failure


class UnitActor:
    """Runs on a node: holds a loaded model, and does one unit while it reads the next.

    Args:
        job: fields of `Job`.
        files: name and files of the checkpoint folder, so that nodes need not share it.
        folder: the working folder of the driver, to which input paths are relative.
    """

    def __init__(
        self, job: dict[str, Any], files: tuple[str, dict[str, bytes]], folder: str
    ) -> None:
        from model.errors import ModelError
        from scoring.errors import ScoringError
        from scoring.worker import Worker

        self._reading, self._computing = threading.Lock(), threading.Lock()
        self._error: str | None = None
        if Path(folder).is_dir():
            os.chdir(folder)
        name, contents = files
        scratch = Path(tempfile.mkdtemp(prefix="headlight-"))
        try:
            checkpoint = scratch / name
            checkpoint.mkdir()
            for file, content in contents.items():
                (checkpoint / file).write_bytes(content)
            self._worker = Worker(Job(**{**job, "checkpoint": str(checkpoint)}))
        except (ModelError, ScoringError) as error:
            self._error = str(error)
        finally:
            shutil.rmtree(scratch)

    def ready(self) -> Message | None:
        """Answers once the model is loaded, or with the error."""
        return None if self._error is None else ("error", self._error)

    def do(self, number: int) -> Message:
        """Does one unit; two calls at once read and compute in turns."""
        with self._reading:
            prepared = self._worker.prepare(number)
        with self._computing:
            computed = self._worker.compute(prepared)
        return to_message(self._worker.write(computed))
