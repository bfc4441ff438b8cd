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
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from types import FrameType
from typing import Any, Self

from scoring.engines.base import Job, UnitFailure
from scoring.errors import EngineError
from scoring.output.manifest import UnitRecord
from scoring.stores import is_url

_MOST_ENDS = 3
# One is computed, the next one is read.
_AHEAD = 2
_SECONDS_TO_CONNECT = 10.0
# Until signals are looked at.
_SECONDS_TO_WAIT = 0.5


class RayEngine:
    """Runs units on a cluster.

    Args:
        address: of the cluster, as `ray.init` takes it; None starts one on this machine.
        workers: how many actors; None: as many as the cluster has room for.
    """

    def __init__(self, *, address: str | None, workers: int | None) -> None:
        self._address = address
        self._workers = workers

    def run(self, job: Job, numbers: Sequence[int]) -> Iterator[UnitRecord | UnitFailure]:
        """Runs units; see `Engine`.

        Raises:
            EngineError: the cluster does not answer, or no actor can load the model.
        """
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
class _Held:
    """An actor and the units that it has.

    Args:
        actor: its handle.
        started: the reference that is ready once the model is loaded; None from then on.
        units: numbers by the references of their results.
    """

    actor: Any
    started: Any
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
        self._class = ray.remote(max_restarts=0, max_concurrency=_AHEAD, **needs)(UnitActor)
        self._held = [self._begin() for _ in range(count)]
        self._left: deque[int] = deque()
        self._ends: dict[int, int] = {}

    def run(self, numbers: Sequence[int]) -> Iterator[UnitRecord | UnitFailure]:
        self._left.extend(numbers)
        open_units = len(numbers)
        while open_units:
            for held in self._held:
                self._give(held)
            waiting = [
                ref
                for held in self._held
                for ref in ([held.started] if held.started is not None else held.units)
            ]
            found, _ = self._ray.wait(waiting, num_returns=1, timeout=_SECONDS_TO_WAIT)
            self._check()
            for ready in found:
                for result in self._settle(ready):
                    open_units -= 1
                    yield result
                    if isinstance(result, UnitFailure) and result.stops:
                        return

    def _begin(self) -> _Held:
        actor = self._class.remote(self._job, self._files, str(Path.cwd()))
        return _Held(actor, actor.ready.remote())

    def _give(self, held: _Held) -> None:
        """Gives an actor units; one that has ended actors is given by itself."""
        while held.started is None and self._left and len(held.units) < _AHEAD:
            mine = {self._left[0], *held.units.values()}
            if held.units and mine & self._ends.keys():
                return
            number = self._left.popleft()
            held.units[held.actor.do.remote(number)] = number

    def _settle(self, ready: Any) -> Iterator[UnitRecord | UnitFailure]:  # noqa: ANN401
        """Takes what is ready: a loaded model, the result of a unit, or the end of an actor."""
        held = next(one for one in self._held if ready in (one.started, *one.units))
        try:
            kind, content = self._ray.get(ready)
        except self._ray.exceptions.RayError as error:
            yield from self._replace(held, type(error).__name__)
            return
        if kind == "error":
            raise EngineError(content)
        if ready == held.started:
            held.started = None
            return
        del held.units[ready]
        yield UnitFailure(**content) if kind == "fault" else UnitRecord(**content)

    def _replace(self, held: _Held, why: str) -> Iterator[UnitFailure]:
        numbers = list(held.units.values())
        self._ray.kill(held.actor)
        self._held[self._held.index(held)] = self._begin()
        for number in numbers:
            self._ends[number] = self._ends.get(number, 0) + 1
        if len(numbers) == 1 and self._ends[numbers[0]] >= _MOST_ENDS:
            yield UnitFailure(
                numbers[0],
                f"part {numbers[0]}: {_MOST_ENDS} actors were ended by it, the last by {why}",
            )
            return
        self._left.extendleft(reversed(numbers))


class UnitActor:
    """Runs on a node: holds a loaded model, and does one unit while it reads the next.

    Args:
        job: fields of `Job`.
        files: name and content of the checkpoint folder, so that nodes need not share it.
        folder: the working folder of the driver, from which paths of inputs count.
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

    def ready(self) -> tuple[str, str | None]:
        """Answers once the model is loaded, or with the error."""
        return ("error" if self._error is not None else "ready"), self._error

    def do(self, number: int) -> tuple[str, dict[str, Any]]:
        """Does one unit; two calls at once read and compute in turns."""
        with self._reading:
            prepared = self._worker.prepare(number)
        with self._computing:
            computed = self._worker.compute(prepared)
        result = self._worker.write(computed)
        if isinstance(result, UnitFailure):
            return "fault", asdict(result)
        return "record", result.model_dump(mode="json")
