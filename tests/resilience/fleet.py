"""Two replicas behind the balancer that can be killed and brought back, in containers or without.

Without containers, the replicas are processes of this machine, and HAProxy reads the
configuration of the compose file with their ports in it.
"""

import re
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Protocol

import httpx

from tests.containers.engine import CommandError, Engine, running_engine
from tests.containers.stack import Stack, ask, running_stack
from tests.containers.standin import standin_engine
from tests.end_to_end.servers import ROOT, environment

_IMAGE = "headlight:soaked"
_PATIENCE = 120.0
_GRACE_SECONDS = 30.0
_SERIES = ("process_resident_memory_bytes", "process_open_fds", "process_start_time_seconds")
_METRICS = """
import urllib.request
print(urllib.request.urlopen("http://127.0.0.1:8000/metrics", timeout=5).read().decode())
"""
State = tuple[float, float, float]


class Fleet(Protocol):
    """Two replicas behind a balancer."""

    @property
    def port(self) -> int:
        """The balancer's, on 127.0.0.1."""

    def replicas(self) -> list[str]:
        """Names of the replicas, the same ones at all times."""

    def state(self, replica: str) -> State | None:
        """Resident memory in bytes, open files and start time of a replica; None if it is away."""

    def kill(self, replica: str) -> None:
        """Ends a replica at once."""

    def stop(self, replica: str) -> None:
        """Asks a replica to end, and waits for it.

        Raises:
            RuntimeError: it did not end in time, or not with status 0.
        """

    def restore(self) -> None:
        """Starts what has ended, and waits until requests reach both."""


def _read_state(metrics: str) -> State | None:
    lines = [line.rsplit(" ", 1) for line in metrics.splitlines() if not line.startswith("#")]
    values = {name: float(value) for name, value in (line for line in lines if len(line) == 2)}
    try:
        memory, files, started = (values[f"headlight_{name}"] for name in _SERIES)
    except KeyError:
        return None
    return memory, files, started


def _await_both(port: int) -> None:
    until = time.monotonic() + _PATIENCE
    seen: set[str | None] = set()
    while len(seen) != 2 or None in seen:
        if time.monotonic() > until:
            raise RuntimeError(f"answers come from {seen}, not from two replicas")
        content = {"sentences": ["good"]}
        with suppress(OSError):  # the balancer may not listen yet
            seen = {ask(port, "POST", "/predict", content).replica for _ in range(8)}


class ContainerFleet:
    """The compose file.

    Args:
        stack: up and healthy.
    """

    def __init__(self, stack: Stack) -> None:
        self._stack = stack
        self._replicas = stack.replicas()
        self.port = stack.port

    def replicas(self) -> list[str]:
        """Names of the containers."""
        return self._replicas

    def state(self, replica: str) -> State | None:
        """What its metrics say."""
        try:
            return _read_state(self._stack.engine.python(replica, _METRICS))
        except CommandError:
            return None

    def kill(self, replica: str) -> None:
        """Ends a container at once."""
        self._stack.engine.docker("kill", replica)

    def stop(self, replica: str) -> None:
        """Stops a container."""
        engine = self._stack.engine
        engine.docker("stop", "--time", str(round(_GRACE_SECONDS)), replica)
        if status := engine.inspect(replica)["State"]["ExitCode"]:
            raise RuntimeError(f"a stopped replica exited with {status}")

    def restore(self) -> None:
        """Starts it again."""
        self._stack.engine.compose("up", "--detach", "--no-build", "--no-recreate", "--wait")
        _await_both(self.port)


class PlainFleet:
    """Two processes and HAProxy.

    Args:
        checkpoint: what they serve.
        folder: for their logs and the balancer's configuration.
        options: of each replica.
    """

    def __init__(self, checkpoint: Path, folder: Path, *options: str) -> None:
        self._command = [sys.executable, "-W", "error", "-m", "service", *options]
        self._command += ["--checkpoint", str(checkpoint), "--threads", "1", "--log-format", "json"]
        self._folder = folder
        with ExitStack() as held:
            self.port, metrics, *replicas = (_free_port(held) for _ in range(4))
        self._ports = {f"api{number}": port for number, port in enumerate(replicas)}
        self._processes: dict[str, subprocess.Popen[bytes]] = {}
        path = folder / "haproxy.cfg"
        path.write_text(balancer_configuration(self.port, metrics, self._ports), encoding="utf-8")
        with (folder / "haproxy.log").open("wb") as log:
            self._balancer = subprocess.Popen(
                ["haproxy", "-f", str(path)],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
            )

    def replicas(self) -> list[str]:
        """Names in the balancer's configuration."""
        return list(self._ports)

    def state(self, replica: str) -> State | None:
        """What its metrics say."""
        try:
            url = f"http://127.0.0.1:{self._ports[replica]}/metrics"
            return _read_state(httpx.get(url, timeout=_PATIENCE).text)
        except httpx.TransportError:
            return None

    def kill(self, replica: str) -> None:
        """Ends a process at once."""
        self._processes[replica].kill()
        self._processes[replica].wait()

    def stop(self, replica: str) -> None:
        """Sends SIGTERM."""
        process = self._processes[replica]
        process.send_signal(signal.SIGTERM)
        try:
            status = process.wait(_GRACE_SECONDS)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
            raise RuntimeError("a stopped replica did not end") from None
        if status:
            raise RuntimeError(f"a stopped replica exited with {status}")

    def restore(self) -> None:
        """Starts the processes that have ended."""
        for replica, port in self._ports.items():
            if replica in self._processes and self._processes[replica].poll() is None:
                continue
            with (self._folder / f"{replica}.log").open("ab") as log:
                self._processes[replica] = subprocess.Popen(
                    [*self._command, "--port", str(port)],
                    stdin=subprocess.DEVNULL,
                    stdout=log,
                    stderr=subprocess.STDOUT,
                    cwd=ROOT,
                    env=environment(),
                )
        _await_both(self.port)

    def end(self) -> None:
        """Ends all of it."""
        for process in (*self._processes.values(), self._balancer):
            process.terminate()
            try:
                process.wait(_GRACE_SECONDS)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


def balancer_configuration(port: int, metrics: int, replicas: dict[str, int]) -> str:
    """Makes HAProxy's configuration for processes of this machine.

    Args:
        port: that it listens on.
        metrics: the port of its own metrics.
        replicas: ports by name.

    Raises:
        RuntimeError: the file in `deploy` has changed, so that its addresses are not found.
    """
    text = (ROOT / "deploy" / "haproxy.cfg").read_text(encoding="utf-8")
    servers = [f"    server {name} 127.0.0.1:{port}" for name, port in replicas.items()]
    for pattern, instead in {
        r"bind :8080": f"bind 127.0.0.1:{port}",
        r"bind :8405": f"bind 127.0.0.1:{metrics}",
        r"resolvers docker\n(?:    .*\n)+": "",
        r"    server-template .*": "\n".join(servers),
    }.items():
        text, count = re.subn(pattern, instead, text)
        if count != 1:
            raise RuntimeError(f"the balancer's configuration has no {pattern!r}")
    return text


def _free_port(held: ExitStack) -> int:
    port: int = held.enter_context(socket.create_server(("127.0.0.1", 0))).getsockname()[1]
    return port


@contextmanager
def plain_fleet(checkpoint: Path, *options: str) -> Iterator[PlainFleet]:
    """Starts two processes behind HAProxy, for as long as the block lasts."""
    with tempfile.TemporaryDirectory() as folder:
        fleet = PlainFleet(checkpoint, Path(folder), *options)
        try:
            fleet.restore()
            yield fleet
        finally:
            fleet.end()


@contextmanager
def container_fleet() -> Iterator[ContainerFleet]:
    """Builds the image and starts the compose file, for as long as the block lasts."""
    with ExitStack() as held:
        engine: Engine = running_engine() or held.enter_context(standin_engine())
        engine.docker("build", "--tag", _IMAGE, ".")
        yield ContainerFleet(held.enter_context(running_stack(engine, _IMAGE)))
