"""Starts a server, waits for its first answer, and stops it with everything it started."""

import os
import signal
import socket
import subprocess
import sys
import time
import uuid
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from benchmarks.client import predict_once
from benchmarks.errors import AnswerError, BenchmarkError
from benchmarks.processes import ProcessGroup

ROOT = Path(__file__).parent.parent

_START_SECONDS = 120.0
_END_SECONDS = 20.0
_SETTLE_SECONDS = 60.0
# Share of a processor. LitServe uses 0.2 while it waits; computing uses at least 1.
_BUSY = 0.5
_WATCHED_SECONDS = 0.3
_FIRST_SENTENCE = "Is anybody there?"


@dataclass(frozen=True, slots=True)
class Program:
    """A server program that answers `POST /predict` with `{"sentences": [...]}`.

    Its `module` takes `--checkpoint` and `--port`; `environment` is the folder of its virtual
    environment, None for that of this process. It answers `POST /attention` too if it `explains`.
    Its model alone is measured in `dtype`.
    """

    name: str
    module: str
    options: Sequence[str] = ()
    environment: Path | None = None
    explains: bool = False
    dtype: str | None = None
    sees_gpu: bool = False

    @property
    def python(self) -> str:
        """The interpreter that runs the program."""
        return str(self.environment / "bin" / "python") if self.environment else sys.executable


@dataclass(frozen=True, slots=True)
class Server:
    """A running server; `start_seconds` go from the start of its process to its first answer."""

    port: int
    start_seconds: float
    processes: ProcessGroup

    def pause(self) -> None:
        """Pauses all its processes, so that it takes no time from another server."""
        self.processes.signal(signal.SIGSTOP)

    @contextmanager
    def awake(self) -> Iterator[None]:
        """Resumes a paused server for the duration of the block."""
        self.processes.signal(signal.SIGCONT)
        try:
            yield
        finally:
            self.pause()

    def settle(self) -> None:
        """Waits until the server has finished the requests of clients that disconnected.

        Most servers do not notice the disconnect and compute all of them. A server may answer a new
        sentence beside that work instead of after it, so the processor time decides.
        """
        # A new sentence each time, or a cache could answer it early.
        predict_once(self.port, [f"{_FIRST_SENTENCE} {uuid.uuid4().hex[:8]}"])
        until = time.monotonic() + _SETTLE_SECONDS
        while self._is_busy():
            if time.monotonic() > until:
                raise AnswerError(
                    f"the server still computes {_SETTLE_SECONDS:g} s after its last request, "
                    "which would count against the next load"
                )

    def _is_busy(self) -> bool:
        before = self.processes.processor_seconds()
        time.sleep(_WATCHED_SECONDS)
        return self.processes.processor_seconds() - before > _BUSY * _WATCHED_SECONDS


@contextmanager
def serve(program: Program, checkpoint: Path, folder: Path) -> Iterator[Server]:
    """Runs a server for the duration of the block; its log goes into `folder`.

    Raises BenchmarkError with the last line of its log if it ended or did not answer in time.
    """
    log = folder / f"{program.name}.log"
    port = _free_port()
    begin = time.monotonic()
    process: subprocess.Popen[bytes] | None = None
    try:
        with _deferred_signals():
            process = _start(program, checkpoint.absolute(), port, log)
        _wait(program, process, port, log)
        yield Server(port, time.monotonic() - begin, ProcessGroup(process.pid))
    except AnswerError as error:
        if process is None or process.poll() is None:
            raise
        raise BenchmarkError(
            f"{program.name} ended while it was measured: {_last_line(log)}"
        ) from error
    finally:
        if process is not None:
            _end(process)


@contextmanager
def _deferred_signals() -> Iterator[None]:
    """Delays interrupts until a started process is recorded, so that it is stopped."""
    received: list[int] = []
    numbers = (signal.SIGINT, signal.SIGTERM)
    handlers = [
        signal.signal(number, lambda caught, _frame: received.append(caught)) for number in numbers
    ]
    try:
        yield
    finally:
        for number, handler in zip(numbers, handlers, strict=True):
            signal.signal(number, handler)
        for caught in received:
            signal.raise_signal(caught)


def _start(program: Program, checkpoint: Path, port: int, log: Path) -> subprocess.Popen[bytes]:
    fixed = ("--checkpoint", str(checkpoint), "--port", str(port))
    with log.open("wb") as output:
        return subprocess.Popen(  # noqa: S603 - a module of our own
            [program.python, "-m", program.module, *fixed, *program.options],
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            cwd=ROOT,
            env=environment(os.environ, sees_gpu=program.sees_gpu),
            start_new_session=True,
        )


def environment(inherited: Mapping[str, str], *, sees_gpu: bool = False) -> dict[str, str]:
    """Returns the environment variables of everything that is measured.

    Settings of the service and of traces are left out, because they would change figures.
    Downloads are off. Without `sees_gpu` no GPU is visible, which only some servers would use.
    """
    kept = {
        name: text
        for name, text in inherited.items()
        if not name.startswith(("HEADLIGHT_", "OTEL_"))
    }
    hidden = {} if sees_gpu else {"CUDA_VISIBLE_DEVICES": ""}
    return {**kept, "HF_HUB_OFFLINE": "1", **hidden}


def _free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as listening:
        port: int = listening.getsockname()[1]
    return port


def _wait(program: Program, process: subprocess.Popen[bytes], port: int, log: Path) -> None:
    """Retries until a sentence is answered."""
    until = time.monotonic() + _START_SECONDS
    while True:
        try:
            predict_once(port, [_FIRST_SENTENCE])
        except AnswerError as error:
            if process.poll() is not None:
                raise BenchmarkError(f"{program.name} did not start: {_last_line(log)}") from error
            if time.monotonic() > until:
                raise BenchmarkError(
                    f"{program.name} did not answer within {_START_SECONDS:g} s: {error}"
                ) from error
        else:
            return
        time.sleep(0.02)


def _last_line(log: Path) -> str:
    lines = log.read_text(encoding="utf-8", errors="replace").split("\n")
    return next((line.strip() for line in reversed(lines) if line.strip()), "its log is empty")


def _end(process: subprocess.Popen[bytes]) -> None:
    """Stops a server and everything it started, first gently, then by force."""
    processes = ProcessGroup(process.pid)
    try:
        # Not SIGTERM: the service drains for some seconds after it.
        processes.signal(signal.SIGINT)
        processes.signal(signal.SIGCONT)  # if it is paused
        with suppress(subprocess.TimeoutExpired):
            process.wait(_END_SECONDS)
    finally:
        processes.signal(signal.SIGKILL)
        process.wait()
