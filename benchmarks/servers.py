"""Lists the servers; starts one, waits for its first answer, stops it with all it started."""

import os
import re
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

from benchmarks.client import ROOT, predict_once
from benchmarks.errors import BenchmarkError
from model.backends.device import computes_bfloat16

OURS = "headlight"
BY_HAND = "by hand"
_BY_HAND_APP = "benchmarks.peers.by_hand_app"
_PEERS = Path("build/peers")
_START_SECONDS = 120.0
_END_SECONDS = 20.0
_MEMORY = re.compile(r"^Pss: +(\d+) kB$", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Program:
    """A server program that answers `POST /predict` with `{"sentences": [...]}`.

    Its `module` takes `--checkpoint` and `--port`; `environment` is the folder of its virtual
    environment, None for that of this process. It answers `POST /attention` too if it `explains`.
    """

    name: str
    module: str
    options: Sequence[str] = ()
    environment: Path | None = None
    explains: bool = False
    sees_gpu: bool = False


def choose_programs(names: Sequence[str], peers: Path = _PEERS) -> list[Program]:
    """Returns the service and the named servers, or all that this processor computes fast.

    Raises:
        BenchmarkError: a name is unknown, or a server is not installed in `peers`.
    """
    known = {each.name: each for each in _on_processor(peers)}
    is_fast = computes_bfloat16("cpu")
    chosen = names or [name for name in known if is_fast or not name.endswith("-bf16")]
    for name in chosen:
        if name not in known:
            raise BenchmarkError(f"--servers {name}: is none of them: {', '.join(known)}")
        if not Path(_python(known[name])).exists():
            raise BenchmarkError(f"{name} is not installed in {peers}: run make benchmark")
    return [Program(OURS, "service", explains=True), *(known[name] for name in chosen)]


def gpu_programs(device: str) -> list[Program]:
    """Returns the service on a GPU, and a server by hand if transformers is installed."""
    place = ("--device", device)
    engine = (*place, "--engine", "transformers")
    by_hand = Program(BY_HAND, _BY_HAND_APP, engine, sees_gpu=True)
    ours = Program(OURS, "service", place, explains=True, sees_gpu=True)
    return [ours, by_hand] if find_spec("transformers") else [ours]


def _python(program: Program) -> str:
    return str(program.environment / "bin" / "python") if program.environment else sys.executable


def _on_processor(peers: Path) -> Iterator[Program]:
    bfloat16 = ("--dtype", "bfloat16")
    yield Program(f"{OURS}-bf16", "service", bfloat16, explains=True)
    for precision in ("int8", "fp32"):
        name, options = f"onnxruntime-{precision}", ("--engine", precision)
        yield Program(name, _BY_HAND_APP, options, environment=peers / "onnxruntime")


@dataclass(frozen=True, slots=True)
class Server:
    """A running server, which leads a group of processes.

    `start_seconds` go from the start of its process to its first answer.
    """

    port: int
    start_seconds: float
    leader: int

    def signal(self, number: signal.Signals) -> None:
        """Sends a signal to each process; does nothing if all have ended."""
        with suppress(ProcessLookupError):
            os.killpg(self.leader, number)

    @contextmanager
    def awake(self) -> Iterator[None]:
        """Resumes a paused server for the duration of the block."""
        self.signal(signal.SIGCONT)
        try:
            yield
        finally:
            self.signal(signal.SIGSTOP)

    def memory_bytes(self) -> int:
        """Returns the memory of all processes, shared memory counted once; reads Linux's /proc."""
        total = 0
        for path in Path("/proc").glob("[0-9]*/stat"):
            with suppress(OSError):  # it ended meanwhile
                # The name, in parentheses, may hold spaces. The group is the third field after it.
                fields = path.read_text(encoding="utf-8", errors="replace").rpartition(")")[2]
                if int(fields.split()[2]) == self.leader:
                    share = _MEMORY.search(path.with_name("smaps_rollup").read_text("ascii"))
                    total += 1024 * int(share[1]) if share else 0
        return total


@contextmanager
def serve(program: Program, checkpoint: Path, folder: Path) -> Iterator[Server]:
    """Runs a server for the duration of the block; its log goes into `folder`.

    Raises:
        BenchmarkError: it ended or did not answer in time; with the last line of its log.
    """
    log = folder / f"{program.name}.log"
    with socket.create_server(("127.0.0.1", 0)) as listening:
        port: int = listening.getsockname()[1]
    fixed = ("--checkpoint", str(checkpoint.absolute()), "--port", str(port))
    begin = time.monotonic()
    process: subprocess.Popen[bytes] | None = None
    try:
        with _deferred_signals(), log.open("wb") as output:
            process = subprocess.Popen(  # noqa: S603 - a module of our own
                [_python(program), "-m", program.module, *fixed, *program.options],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                cwd=ROOT,
                env=environment(os.environ, sees_gpu=program.sees_gpu),
                start_new_session=True,
            )
        _wait(process, port)
        yield Server(port, time.monotonic() - begin, process.pid)
    except BenchmarkError as error:
        if process is None or process.poll() is None:
            raise
        lines = log.read_text(encoding="utf-8", errors="replace").split("\n")
        last = next((line.strip() for line in reversed(lines) if line.strip()), "its log is empty")
        raise BenchmarkError(f"{program.name}: {error}; its last line: {last}") from error
    finally:
        if process is not None:
            _end(process)


@contextmanager
def _deferred_signals() -> Iterator[None]:
    """Delays interrupts until a started process is recorded, so that it is stopped."""
    received: list[int] = []
    numbers = (signal.SIGINT, signal.SIGTERM)
    before = [signal.signal(each, lambda number, _: received.append(number)) for each in numbers]
    try:
        yield
    finally:
        for number, handler in zip(numbers, before, strict=True):
            signal.signal(number, handler)
        for caught in received:
            signal.raise_signal(caught)


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


def _wait(process: subprocess.Popen[bytes], port: int) -> None:
    """Retries until a sentence is answered."""
    until = time.monotonic() + _START_SECONDS
    while True:
        try:
            predict_once(port, ["Is anybody there?"])
        except BenchmarkError:
            if process.poll() is not None or time.monotonic() > until:
                raise
        else:
            return
        time.sleep(0.02)


def _end(process: subprocess.Popen[bytes]) -> None:
    """Stops a server and everything it started, first gently, then by force."""
    with suppress(ProcessLookupError):
        # Not SIGTERM: the service drains for some seconds after it.
        os.killpg(process.pid, signal.SIGINT)
        os.killpg(process.pid, signal.SIGCONT)  # if it is paused
        with suppress(subprocess.TimeoutExpired):
            process.wait(_END_SECONDS)
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()
