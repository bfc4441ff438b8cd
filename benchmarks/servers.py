"""From a command to a server that answers on a port, and to its end with all that it started."""

import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from benchmarks.client import predict_once
from benchmarks.errors import AnswerError, ServerError
from benchmarks.loads import Closed, Load

ROOT = Path(__file__).parent.parent

_START_PATIENCE = 120.0
_END_PATIENCE = 20.0
_FIRST_SENTENCE = "Is anybody there?"


@dataclass(frozen=True, slots=True)
class Program:
    """A server that can be started; it answers `POST /predict` with `{"sentences": [...]}`.

    Args:
        name: in the table.
        module: that Python runs; takes `--checkpoint` and `--port`.
        options: of the command line, besides those two.
        environment: folder of the virtual environment that it needs; None: the one of this process.
        explains: whether it answers `POST /attention` too.
    """

    name: str
    module: str
    options: Sequence[str] = ()
    environment: Path | None = None
    explains: bool = False

    def can_answer(self, load: Load) -> bool:
        """Whether it has the route that a load asks."""
        return self.explains or not (isinstance(load, Closed) and load.route == "attention")

    @property
    def python(self) -> str:
        """The interpreter that runs it."""
        return str(self.environment / "bin" / "python") if self.environment else sys.executable


@dataclass(frozen=True, slots=True)
class Server:
    """A server that answers.

    Args:
        port: on 127.0.0.1.
        start_seconds: from the start of the process to its first answered sentence.
        group: the process group, which is also the id of its first process.
    """

    port: int
    start_seconds: float
    group: int

    def resident_bytes(self) -> int | None:
        """The memory that its processes hold now; None where there is no /proc to tell."""
        return resident_bytes(self.group)

    def pause(self) -> None:
        """Stops all its processes where they are, so that it takes no time from another."""
        self._signal(signal.SIGSTOP)

    @contextmanager
    def awake(self) -> Iterator[None]:
        """Lets a server that is paused go on for as long as the block lasts."""
        self._signal(signal.SIGCONT)
        try:
            yield
        finally:
            self.pause()

    def _signal(self, number: signal.Signals) -> None:
        with suppress(ProcessLookupError):  # it has ended, which the next request to it will tell
            os.killpg(self.group, number)


@contextmanager
def serve(program: Program, checkpoint: Path, folder: Path) -> Iterator[Server]:
    """Runs a server for as long as the block lasts.

    Args:
        program: what to run.
        checkpoint: the folder to serve.
        folder: where its log goes.

    Raises:
        ServerError: it ended, or did not answer in time; holds the last line of its log.
    """
    log = folder / f"{program.name}.log"
    port = _free_port()
    begin = time.monotonic()
    process: subprocess.Popen[bytes] | None = None
    try:
        with _deferred_signals():
            process = _start(program, checkpoint.absolute(), port, log)
        _wait(program, process, port, log)
        yield Server(port, time.monotonic() - begin, process.pid)
    except AnswerError as error:
        if process is None or process.poll() is None:
            raise
        raise ServerError(
            f"{program.name} ended while it was measured: {_last_line(log)}"
        ) from error
    finally:
        if process is not None:
            _end(process)


@contextmanager
def _deferred_signals() -> Iterator[None]:
    """Lets no interrupt come between the start of a process and the knowledge of it."""
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


def resident_bytes(group: int) -> int | None:
    """The resident memory of all processes of a group; None where there is no /proc to tell."""
    proc = Path("/proc")
    if not (proc / "self" / "stat").exists():
        return None
    pages = 0
    for path in proc.glob("[0-9]*/stat"):
        with suppress(OSError):  # a process that ended meanwhile
            # The name, in parentheses, may hold spaces; state is the first field behind it.
            fields = path.read_text(encoding="utf-8", errors="replace").rpartition(")")[2].split()
            if int(fields[2]) == group:
                pages += int(fields[21])
    return pages * os.sysconf("SC_PAGE_SIZE")


def _start(program: Program, checkpoint: Path, port: int, log: Path) -> subprocess.Popen[bytes]:
    given = ("--checkpoint", str(checkpoint), "--port", str(port))
    with log.open("wb") as output:
        return subprocess.Popen(  # noqa: S603 - a module of our own
            [program.python, "-m", program.module, *given, *program.options],
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            cwd=ROOT,
            env=_environment(os.environ),
            start_new_session=True,
        )


def _environment(inherited: Mapping[str, str]) -> dict[str, str]:
    """Without settings of the service, which would make figures differ, and without downloads."""
    kept = {name: text for name, text in inherited.items() if not name.startswith("HEADLIGHT_")}
    return {**kept, "HF_HUB_OFFLINE": "1"}


def _free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port: int = taken.getsockname()[1]
    return port


def _wait(program: Program, process: subprocess.Popen[bytes], port: int, log: Path) -> None:
    """Asks until a sentence is answered."""
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


def _end(process: subprocess.Popen[bytes]) -> None:
    """Ends a server and whatever it has started, asked first and then not."""
    try:
        with suppress(ProcessLookupError, subprocess.TimeoutExpired):
            # Not SIGTERM, after which the service goes on answering for a while.
            os.killpg(process.pid, signal.SIGINT)
            os.killpg(process.pid, signal.SIGCONT)  # if it is paused
            process.wait(_END_PATIENCE)
    finally:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
