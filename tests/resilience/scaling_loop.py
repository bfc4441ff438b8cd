"""Runs replicas, HAProxy and Prometheus, and adds and ends replicas as an autoscaler says.

The replicas are real services whose passes are made longer by a pause, so that a few requests keep
one busy and several fit on one machine.
"""

import json
import os
import re
import shutil
import signal
import socket
import subprocess
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

import httpx
import yaml

from tests.deploy.balancers import DEPLOY, free_port
from tests.end_to_end.servers import RunningService, service
from tests.resilience.autoscaler import Autoscaler, Rules
from tests.resilience.open_load import Load

SLOTS = 8
_PATIENCE = 60.0
_PROGRAM = ("-W", "error", "-m", "tests.end_to_end.misbehaving")


@dataclass(frozen=True, slots=True)
class Options:
    """How a loop runs.

    Args:
        checkpoint: that the replicas serve.
        folder: for files of all kinds.
        pass_seconds: that each pass takes at least; a pass has one text.
        scrape_seconds: between two looks of Prometheus at a replica.
        sync_seconds: between two decisions.
        labels: that Prometheus gives the series of the replicas.
    """

    checkpoint: Path
    folder: Path
    pass_seconds: float
    scrape_seconds: int
    sync_seconds: float
    labels: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Sample:
    """The state at one decision.

    Args:
        seconds: since the start.
        rate: requests a second that were sent.
        asked: replicas that the autoscaler wants.
        ready: replicas that get requests.
        measured: what the queries gave.
    """

    seconds: float
    rate: float
    asked: int
    ready: int
    measured: dict[str, float]


class Replicas:
    """Real services behind a real HAProxy, which learns of them by its socket.

    Args:
        options: of the loop.
        socket_path: of HAProxy.
        targets: the file by which Prometheus finds them.
    """

    def __init__(self, options: Options, socket_path: Path, targets: Path) -> None:
        self._options = options
        self._socket = socket_path
        self._targets = targets
        self._lock = threading.Lock()
        self._running: dict[int, tuple[RunningService, ExitStack]] = {}
        self._wanted: set[int] = set()
        self._workers: list[threading.Thread] = []
        self.faults: list[str] = []
        self.changes: list[tuple[float, int]] = []  # when, and how many are ready since
        self._write_targets()

    @property
    def ready(self) -> int:
        """How many get requests."""
        with self._lock:
            return len(self._running)

    @property
    def wanted(self) -> int:
        """How many there are or will be."""
        return len(self._wanted)

    def scale(self, count: int) -> None:
        """Starts or ends replicas until there are so many; does not wait for them."""
        free = [slot for slot in range(1, SLOTS + 1) if slot not in self._wanted]
        for slot in free[: max(0, count - self.wanted)]:
            self._wanted.add(slot)
            self._spawn(self._start, slot)
        for slot in sorted(self._wanted)[count:]:
            self._wanted.discard(slot)
            self._spawn(self._end, slot)

    def _spawn(self, work: Callable[[int], None], slot: int) -> None:
        before = [worker for worker in self._workers if worker.name == str(slot)]

        def run() -> None:
            for worker in before:  # one that ends must have ended before its slot is used again
                worker.join()
            try:
                work(slot)
            except Exception as error:
                self.faults.append(repr(error))

        self._workers.append(threading.Thread(target=run, name=str(slot)))
        self._workers[-1].start()

    def _start(self, slot: int) -> None:
        folder = self._options.folder / f"replica-{slot}"
        folder.mkdir(exist_ok=True)
        (folder / "pass").write_text(str(self._options.pass_seconds), encoding="utf-8")
        stack = ExitStack()
        running = stack.enter_context(
            service(
                self._options.checkpoint,
                folder,
                "--max-batch-tokens",
                "16",
                program=(*_PROGRAM, str(folder)),
            )
        )
        self._tell(f"set server replicas/api{slot} addr 127.0.0.1 port {running.port}")
        self._tell(f"set server replicas/api{slot} state ready")
        with self._lock:
            self._running[slot] = (running, stack)
            self.changes.append((time.monotonic(), len(self._running)))
            self._write_targets()

    def _end(self, slot: int) -> None:
        with self._lock:
            running, stack = self._running.pop(slot)
            self.changes.append((time.monotonic(), len(self._running)))
            self._write_targets()
        # As in a cluster: the address is withdrawn while the replica already drains.
        running.process.send_signal(signal.SIGTERM)
        self._tell(f"set server replicas/api{slot} state drain")
        if running.process.wait(_PATIENCE):
            self.faults.append(f"a replica ended with {running.process.returncode}")
        self._tell(f"set server replicas/api{slot} state maint")
        stack.close()

    def _write_targets(self) -> None:
        ports = [running.port for running, _ in self._running.values()]
        content = [
            {"targets": [f"127.0.0.1:{port}" for port in ports], "labels": {**self._options.labels}}
        ]
        aside = self._targets.with_suffix(".new")
        aside.write_text(json.dumps(content), encoding="utf-8")
        aside.replace(self._targets)

    def _tell(self, command: str) -> None:
        with socket.socket(socket.AF_UNIX) as connection:
            connection.connect(str(self._socket))
            connection.sendall(f"{command}\n".encode())
            answer = connection.recv(65536).decode().strip()
        # It tells what it changed; anything else is a fault.
        if answer and "changed" not in answer and "no need to change" not in answer:
            raise RuntimeError(f"HAProxy says to {command!r}: {answer}")

    def close(self) -> None:
        """Ends all of them and waits."""
        self.scale(0)
        for worker in self._workers:
            worker.join()


class Loop:
    """The whole of it: measures, decides, and changes the replicas.

    Args:
        replicas: to change.
        autoscaler: that decides.
        prometheus: its address.
        load: that is sent.
        sync_seconds: between two decisions.
    """

    def __init__(
        self,
        replicas: Replicas,
        autoscaler: Autoscaler,
        prometheus: str,
        load: Load,
        sync_seconds: float,
    ) -> None:
        self.replicas = replicas
        self.load = load
        self.samples: list[Sample] = []
        self.begin = time.monotonic()
        self._autoscaler = autoscaler
        self._prometheus = prometheus
        self._sync_seconds = sync_seconds
        self._next = self.begin

    def measure(self) -> dict[str, float]:
        """What the queries of the triggers give; an empty answer is left out."""
        found = {}
        for trigger in self._autoscaler.rules.triggers:
            answer = httpx.get(
                f"{self._prometheus}/api/v1/query", params={"query": trigger.query}, timeout=10
            ).json()
            assert answer["status"] == "success", answer
            for result in answer["data"]["result"]:
                found[trigger.name] = float(result["value"][1])
        return found

    def step(self) -> Sample:
        """Waits for the next moment, and makes one decision."""
        self._next = max(self._next + self._sync_seconds, time.monotonic())
        time.sleep(max(0.0, self._next - time.monotonic()))
        measured = self.measure()
        now = time.monotonic()
        asked = self._autoscaler.decide(now, self.replicas.wanted, measured)
        self.replicas.scale(asked)
        sample = Sample(
            now - self.begin, self.load.rate, asked, self.replicas.ready, dict(measured)
        )
        self.samples.append(sample)
        return sample

    def step_until(self, condition: Callable[[Sample], bool], *, seconds: float) -> Sample:
        """Makes decisions until one is as it should be."""
        until = time.monotonic() + seconds
        while not condition(sample := self.step()):
            assert time.monotonic() < until, self.samples[-10:]
            assert not self.replicas.faults
        return sample


@contextmanager
def running_loop(options: Options, rules: Rules) -> Iterator[Loop]:
    """Starts everything, with as many replicas ready as there must be at least."""
    folder = options.folder
    targets, socket_path = folder / "targets.json", folder / "haproxy.sock"
    with ExitStack() as held:
        port, metrics, prometheus = (free_port(held) for _ in range(3))
    with ExitStack() as stack:
        command = ["haproxy", "-f", str(_haproxy_file(folder, socket_path, port, metrics))]
        stack.enter_context(_process(command, folder / "haproxy.log"))
        _wait_for(socket_path.exists)
        replicas = Replicas(options, socket_path, targets)
        stack.callback(replicas.close)
        stack.enter_context(
            _process(_prometheus(options, targets, prometheus), folder / "prometheus.log")
        )
        replicas.scale(rules.least)
        address = f"http://127.0.0.1:{prometheus}"
        load = Load(f"http://127.0.0.1:{port}/predict")
        loop = Loop(replicas, Autoscaler(rules), address, load, options.sync_seconds)
        _wait_for(lambda: replicas.ready == rules.least or bool(replicas.faults))
        _wait_for(lambda: _answers(loop, rules))
        stack.enter_context(load)
        loop.begin = time.monotonic()
        yield loop


def _answers(loop: Loop, rules: Rules) -> bool:
    try:
        return len(loop.measure()) == len(rules.triggers)
    except httpx.TransportError:
        return False


def _haproxy_file(folder: Path, socket_path: Path, port: int, metrics: int) -> Path:
    text = (DEPLOY / "haproxy.cfg").read_text(encoding="utf-8")
    for pattern, instead in {
        r"bind :8080": f"bind 127.0.0.1:{port}",
        r"bind :8405": f"bind 127.0.0.1:{metrics}",
        r"resolvers docker\n(?:    .*\n)+": "",
        r"^global\n": f"global\n    stats socket {socket_path} level admin\n",
        r"    server-template .*": f"    server-template api {SLOTS} 127.0.0.1:9 disabled",
    }.items():
        text, count = re.subn(pattern, instead, text, flags=re.MULTILINE)
        if count != 1:
            raise RuntimeError(f"the balancer's configuration has no {pattern!r}")
    path = folder / "haproxy.cfg"
    path.write_text(text, encoding="utf-8")
    return path


def _prometheus(options: Options, targets: Path, port: int) -> list[str]:
    every = f"{options.scrape_seconds}s"
    discovery = [{"files": [str(targets)], "refresh_interval": every}]
    job = {"job_name": "headlight", "file_sd_configs": discovery}
    config = {
        "global": {"scrape_interval": every, "scrape_timeout": every},
        "scrape_configs": [job],
    }
    path = options.folder / "prometheus.yml"
    path.write_text(yaml.safe_dump(config), encoding="utf-8")
    return [
        "prometheus",
        f"--config.file={path}",
        f"--storage.tsdb.path={options.folder / 'series'}",
        f"--web.listen-address=127.0.0.1:{port}",
    ]


@contextmanager
def _process(command: list[str], log: Path) -> Iterator[subprocess.Popen[bytes]]:
    found = shutil.which(command[0])
    if found is None:
        raise RuntimeError(f"{command[0]} is not installed")
    with log.open("wb") as output:
        process = subprocess.Popen(
            [found, *command[1:]],
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            env={"PATH": os.environ["PATH"]},
        )
        try:
            yield process
        finally:
            process.terminate()
            try:
                process.wait(_PATIENCE)
            except subprocess.TimeoutExpired:
                process.kill()


def _wait_for(condition: Callable[[], bool]) -> None:
    until = time.monotonic() + _PATIENCE
    while not condition():
        if time.monotonic() > until:
            raise RuntimeError("the replicas, HAProxy or Prometheus did not come up")
        time.sleep(0.1)
