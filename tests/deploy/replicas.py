"""Runs two services on ports that stay theirs, so that each can end and come back."""

import signal
from collections.abc import Mapping
from contextlib import ExitStack
from pathlib import Path

from tests.deploy.balancers import free_port
from tests.end_to_end.servers import RunningService, service

_PATIENCE = 60


class Replicas:
    """Two services, numbered 0 and 1; none runs at first."""

    def __init__(
        self,
        checkpoint: Path,
        folder: Path,
        *options: str,
        settings: Mapping[str, str] | None = None,
    ) -> None:
        self._checkpoint = checkpoint
        self._folder = folder
        self._options = options
        self._settings = settings
        with ExitStack() as held:
            self.ports = [free_port(held) for _ in range(2)]
        self.running: dict[int, RunningService] = {}
        self._stacks: dict[int, ExitStack] = {}

    def __enter__(self) -> "Replicas":
        """Starts both."""
        with ExitStack() as stack:
            stack.callback(self._close)
            self.start(0)
            self.start(1)
            stack.pop_all()
        return self

    def __exit__(self, *_: object) -> None:
        """Ends those that run."""
        self._close()

    def start(self, number: int) -> None:
        """Starts one and waits until it is ready."""
        folder = self._folder / f"replica-{number}"
        folder.mkdir(exist_ok=True)
        stack = self._stacks[number] = ExitStack()
        options = ("--port", str(self.ports[number]), *self._options)
        run = service(self._checkpoint, folder, *options, settings=self._settings)
        self.running[number] = stack.enter_context(run)

    def end(self, number: int, how: signal.Signals = signal.SIGTERM) -> int:
        """Ends one by a signal; returns the status of its process."""
        process = self.running.pop(number).process
        process.send_signal(how)
        with self._stacks.pop(number):
            return process.wait(_PATIENCE)

    def answered(self) -> list[float]:
        """How many predictions each one has answered since its start."""
        series = 'headlight_requests_total{method="POST",route="/predict",status="200"}'
        return [self.running[number].metric(series) for number in sorted(self.running)]

    def _close(self) -> None:
        for stack in self._stacks.values():
            stack.close()
