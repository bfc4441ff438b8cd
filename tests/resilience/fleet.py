"""Two replicas behind HAProxy that can be killed and brought back."""

import signal
import subprocess
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

import httpx

from tests.containers.stack import ask
from tests.deploy.balancers import balancer, free_port
from tests.end_to_end.servers import RunningService, service

_PATIENCE = 120.0
_GRACE_SECONDS = 30.0


@dataclass(frozen=True, slots=True)
class State:
    """Resident memory of a replica in bytes, its open files, and when it started."""

    memory: float
    files: float
    started: float


class Fleet:
    """Two services of one thread each, on ports that stay the same.

    Args:
        checkpoint: the folder that they serve.
        folder: the folder for their logs.
        options: further options of each service.
    """

    def __init__(self, checkpoint: Path, folder: Path, *options: str) -> None:
        self.port = 0  # of the balancer
        self._checkpoint = checkpoint
        self._folder = folder
        self._options = options
        with ExitStack() as held:
            self.ports = [free_port(held) for _ in range(2)]
        self._running: dict[int, tuple[RunningService, ExitStack]] = {}

    def start(self) -> None:
        """Starts each replica that has ended, and waits until requests reach both."""
        for port in self.ports:
            if port in self._running:
                continue
            log_folder = self._folder / str(port)
            log_folder.mkdir(exist_ok=True)
            stack = ExitStack()
            options = ("--port", str(port), *self._options)
            running = stack.enter_context(service(self._checkpoint, log_folder, *options))
            self._running[port] = (running, stack)
        if self.port:
            self._await_both()

    def state(self, port: int) -> State | None:
        """Reads the metrics of a replica; None if it is away."""
        try:
            running, _ = self._running[port]
            return State(
                running.metric("headlight_process_resident_memory_bytes"),
                running.metric("headlight_process_open_fds"),
                running.metric("headlight_process_start_time_seconds"),
            )
        except (KeyError, httpx.TransportError):
            return None

    def kill(self, port: int) -> None:
        """Ends a replica at once."""
        running, stack = self._running.pop(port)
        running.process.kill()
        running.process.wait()
        stack.close()

    def stop(self, port: int) -> None:
        """Sends SIGTERM, and waits.

        Raises:
            RuntimeError: the replica did not end in time, or not with status 0.
        """
        running, stack = self._running.pop(port)
        running.process.send_signal(signal.SIGTERM)
        with stack, suppress(subprocess.TimeoutExpired):
            running.process.wait(_GRACE_SECONDS)
        if status := running.process.wait():
            raise RuntimeError(f"a stopped replica exited with {status}")

    def end(self) -> None:
        """Ends both replicas."""
        for _, stack in self._running.values():
            stack.close()

    def _await_both(self) -> None:
        until = time.monotonic() + _PATIENCE
        seen: set[str | None] = set()
        while len(seen) != 2 or None in seen:
            if time.monotonic() > until:
                raise RuntimeError(f"answers come from {seen}, not from two replicas")
            content = {"sentences": ["good"]}
            with suppress(OSError):  # the balancer may not listen yet
                seen = {ask(self.port, "POST", "/predict", content).replica for _ in range(8)}


@contextmanager
def running_fleet(checkpoint: Path, folder: Path, *options: str) -> Iterator[Fleet]:
    """Runs two replicas behind HAProxy until the block ends."""
    fleet = Fleet(checkpoint, folder, *options)
    try:
        fleet.start()
        with balancer("haproxy", fleet.ports, folder) as front:
            fleet.port = front.port
            fleet.start()
            yield fleet
    finally:
        fleet.end()
