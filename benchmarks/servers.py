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
from benchmarks.errors import AnswerError, ServerError
from benchmarks.loads import Closed, Load
from benchmarks.processes import ProcessTree

ROOT = Path(__file__).parent.parent

_START_PATIENCE = 120.0
_END_PATIENCE = 20.0
_SETTLE_PATIENCE = 60.0
# Share of a processor. LitServe uses 0.2 while it waits; computing uses at least 1.
_BUSY = 0.5
_WATCHED_SECONDS = 0.3
_FIRST_SENTENCE = "Is anybody there?"


@dataclass(frozen=True, slots=True)
class Program:
    """A server program that answers `POST /predict` with `{"sentences": [...]}`.

    Args:
        name: in the table.
        module: that Python runs; takes `--checkpoint` and `--port`.
        options: further command-line options.
        environment: folder of its virtual environment; None for that of this process.
        explains: whether it answers `POST /attention` too.
        alone: the module and options that measure its model alone; empty if nothing does.
        sees_gpu: whether the GPUs of this machine are visible to it.
        variables: further environment variables.
    """

    name: str
    module: str
    options: Sequence[str] = ()
    environment: Path | None = None
    explains: bool = False
    alone: Sequence[str] = ()
    sees_gpu: bool = False
    variables: Sequence[tuple[str, str]] = ()

    def can_answer(self, load: Load) -> bool:
        """Returns whether it has the route that a load asks."""
        return self.explains or not (isinstance(load, Closed) and load.route == "attention")

    @property
    def python(self) -> str:
        """The interpreter that runs the program."""
        return str(self.environment / "bin" / "python") if self.environment else sys.executable


@dataclass(frozen=True, slots=True)
class Server:
    """A running server.

    Args:
        port: on 127.0.0.1.
        start_seconds: from the start of the process to its first answered sentence.
        processes: all processes of the server.
    """

    port: int
    start_seconds: float
    processes: ProcessTree

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

    def wait_in_turn(self) -> None:
        """Waits for the answer to a sentence; in a queue, all earlier requests are then answered.

        Raises:
            AnswerError: the sentence failed.
        """
        # A new sentence each time, or a cache could answer it early.
        predict_once(self.port, [f"{_FIRST_SENTENCE} {uuid.uuid4().hex[:8]}"])

    def settle(self) -> None:
        """Waits until the server has finished the requests of clients that disconnected.

        Most servers do not notice the disconnect and compute all of them. A server may answer a new
        sentence beside that work instead of after it, so the processor time decides. The latency of
        the sentence says less: BentoML delays it because earlier ones had to wait.

        Raises:
            AnswerError: the sentence failed, or the server still computes after a minute.
        """
        self.wait_in_turn()
        until = time.monotonic() + _SETTLE_PATIENCE
        while self._is_busy():
            if time.monotonic() > until:
                raise AnswerError(
                    f"the server still computes {_SETTLE_PATIENCE:g} s after it was asked last, "
                    "which would count against the next load"
                )

    def _is_busy(self) -> bool:
        taken = self.processes.processor_seconds()
        time.sleep(_WATCHED_SECONDS)
        return self.processes.processor_seconds() - taken > _BUSY * _WATCHED_SECONDS


@contextmanager
def serve(program: Program, checkpoint: Path, folder: Path) -> Iterator[Server]:
    """Runs a server for the duration of the block.

    Args:
        program: to run.
        checkpoint: the folder to serve.
        folder: for its log.

    Raises:
        ServerError: it ended, or did not answer in time. The message has the last line of its log.
    """
    log = folder / f"{program.name}.log"
    port = _free_port()
    begin = time.monotonic()
    process: subprocess.Popen[bytes] | None = None
    try:
        with _deferred_signals():
            process = _start(program, checkpoint.absolute(), port, log)
            started = ProcessTree(process.pid)
        _wait(program, process, port, log)
        yield Server(port, time.monotonic() - begin, started)
    except AnswerError as error:
        if process is None or process.poll() is None:
            raise
        raise ServerError(
            f"{program.name} ended while it was measured: {_last_line(log)}"
        ) from error
    finally:
        if process is not None:
            _end(process, started)


@contextmanager
def _deferred_signals() -> Iterator[None]:
    """Delays interrupts until a started process is recorded."""
    received: list[int] = []
    numbers = (signal.SIGINT, signal.SIGTERM)
    before = {number: signal.getsignal(number) for number in numbers}
    for number in numbers:
        signal.signal(number, lambda caught, _frame: received.append(caught))
    try:
        yield
    finally:
        for number in numbers:
            signal.signal(number, before[number])
        for caught in received:
            signal.raise_signal(caught)


def _start(program: Program, checkpoint: Path, port: int, log: Path) -> subprocess.Popen[bytes]:
    given = ("--checkpoint", str(checkpoint), "--port", str(port))
    with log.open("wb") as output:
        return subprocess.Popen(  # noqa: S603 - a module of our own
            [program.python, "-m", program.module, *given, *program.options],
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            cwd=ROOT,
            env=environment(os.environ, sees_gpu=program.sees_gpu) | dict(program.variables),
            start_new_session=True,
        )


def environment(inherited: Mapping[str, str], *, sees_gpu: bool = False) -> dict[str, str]:
    """Returns the environment variables of everything that is measured.

    Args:
        inherited: the variables of this process.
        sees_gpu: whether it is measured on a GPU.

    Returns:
        The inherited variables without settings of the service and of traces, which would change
        figures; with downloads off; and on a processor without GPUs, which only some servers would
        use.
    """
    left_out = ("HEADLIGHT_", "OTEL_")
    kept = {name: text for name, text in inherited.items() if not name.startswith(left_out)}
    hidden = {} if sees_gpu else {"CUDA_VISIBLE_DEVICES": ""}
    return {**kept, "HF_HUB_OFFLINE": "1", **hidden}


def _free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port: int = taken.getsockname()[1]
    return port


def _wait(program: Program, process: subprocess.Popen[bytes], port: int, log: Path) -> None:
    """Retries until a sentence is answered."""
    until = time.monotonic() + _START_PATIENCE
    while True:
        try:
            predict_once(port, [_FIRST_SENTENCE])
        except AnswerError as error:
            if process.poll() is not None:
                raise ServerError(f"{program.name} did not start: {_last_line(log)}") from error
            if time.monotonic() > until:
                raise ServerError(
                    f"{program.name} did not answer within {_START_PATIENCE:g} s: {error}"
                ) from error
        else:
            return
        time.sleep(0.02)


def _last_line(log: Path) -> str:
    lines = log.read_text(encoding="utf-8", errors="replace").split("\n")
    return next((line.strip() for line in reversed(lines) if line.strip()), "it said nothing")


def _end(process: subprocess.Popen[bytes], started: ProcessTree) -> None:
    """Stops a server and everything it started, first gently, then by force."""
    try:
        # Not SIGTERM: the service drains for some seconds after it.
        started.signal(signal.SIGINT)
        started.signal(signal.SIGCONT)  # if it is paused
        with suppress(subprocess.TimeoutExpired):
            process.wait(_END_PATIENCE)
    finally:
        started.signal(signal.SIGKILL)
        process.wait()
