"""Two replicas behind HAProxy that can be killed and brought back."""

import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

import httpx

from tests.containers.stack import ask
from tests.deploy.balancers import balancer
from tests.deploy.replicas import Replicas

_PATIENCE = 120.0


@dataclass(frozen=True, slots=True)
class State:
    """Resident memory of a replica in bytes, its open files, and when it started."""

    memory: float
    files: float
    started: float


class Fleet:
    """Two replicas, numbered 0 and 1, and the port of their balancer."""

    def __init__(self, replicas: Replicas, port: int) -> None:
        self.port = port
        self._replicas = replicas

    def state(self, number: int) -> State | None:
        """Reads the metrics of a replica; None if it is away."""
        try:
            running = self._replicas.running[number]
            return State(
                running.metric("headlight_process_resident_memory_bytes"),
                running.metric("headlight_process_open_fds"),
                running.metric("headlight_process_start_time_seconds"),
            )
        except (KeyError, httpx.TransportError):
            return None

    def kill(self, number: int) -> None:
        """Ends a replica at once."""
        self._replicas.end(number, signal.SIGKILL)

    def stop(self, number: int) -> None:
        """Sends SIGTERM, and waits.

        Raises:
            RuntimeError: the replica did not end with status 0.
        """
        if status := self._replicas.end(number):
            raise RuntimeError(f"a stopped replica exited with {status}")

    def start(self, number: int) -> None:
        """Starts a replica again, and waits until requests reach both."""
        self._replicas.start(number)
        self.await_both()

    def await_both(self) -> None:
        """Waits until answers come from both replicas."""
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
    with (
        Replicas(checkpoint, folder, *options) as replicas,
        balancer("haproxy", replicas.ports, folder) as front,
    ):
        fleet = Fleet(replicas, front.port)
        fleet.await_both()
        yield fleet
