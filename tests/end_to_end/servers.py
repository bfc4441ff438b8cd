"""Starts the service, as a process or on a thread of the tests, and asks it over a socket."""

import logging
import os
import re
import signal
import socket
import ssl
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, cast
from unittest import mock

import httpx
import pytest

from model.checkpoint import opening
from service import command
from service.http import server
from service.logs import LineFormatter, json_line

ROOT = Path(__file__).parents[2]
Scope = Literal["session", "package", "module"]
_ADDRESS = re.compile(r"listening at (http://\S+?)/[\"\s]")
PATIENCE = 60.0
# Every client would make its own, which takes 25 ms.
TLS = ssl.create_default_context()


@dataclass(frozen=True, slots=True)
class RunningService:
    """A service: its URL without a slash at the end, its log, and its process if it has one."""

    process: subprocess.Popen[bytes]
    url: str
    log: Path

    @property
    def port(self) -> int:
        port = httpx.URL(self.url).port
        assert port is not None
        return port

    def client(self, **headers: str) -> httpx.Client:
        """A client with connections of its own."""
        return httpx.Client(base_url=self.url, headers=headers, timeout=PATIENCE, verify=TLS)

    def get(self, path: str) -> httpx.Response:
        """The answer on a connection of its own."""
        return httpx.get(self.url + path, timeout=PATIENCE, verify=TLS)

    def wait_for(self, status: int, path: str = "/health/ready") -> httpx.Response:
        """Asks until the answer has a status."""
        responses: list[httpx.Response] = []

        def answers() -> bool:
            responses.append(self.get(path))
            return responses[-1].status_code == status

        wait_until(answers)
        return responses[-1]

    def metrics(self) -> str:
        return self.get("/metrics").text

    def metric(self, name: str) -> float:
        """The value of one series; 0 if the metric is known but has no such series yet."""
        lines = self.metrics().splitlines()
        values = [line.removeprefix(f"{name} ") for line in lines if line.startswith(f"{name} ")]
        families = [line.split()[2] for line in lines if line.startswith("# TYPE ")]
        assert any(name.startswith(family) for family in families), name
        return float(values[0]) if values else 0.0

    def refused(self) -> dict[str, float]:
        """How many requests were refused, by reason."""
        prefix = 'headlight_refused_requests_total{reason="'
        lines = [line for line in self.metrics().splitlines() if line.startswith(prefix)]
        counts = {line.split('"')[1]: float(line.rsplit(" ", 1)[1]) for line in lines}
        return {reason: count for reason, count in counts.items() if count}

    def errors(self) -> list[str]:
        """The lines of its log that report an error, or were written by no logger."""
        lines = self.log.read_text("utf-8").splitlines()
        return [line for line in lines if '"level":"error"' in line or not line.startswith("{")]

    def connect(self) -> socket.socket:
        """A connection for raw bytes."""
        return socket.create_connection(("127.0.0.1", self.port), timeout=PATIENCE)

    def accepts(self) -> bool:
        try:
            self.connect().close()
        except ConnectionRefusedError:
            return False
        return True

    def send(self, *pieces: bytes) -> bytes:
        """What comes back, until the connection is closed, for raw bytes sent piece by piece."""
        with self.connect() as connection:
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            for piece in pieces:
                connection.sendall(piece)
                time.sleep(0.02 * (len(pieces) > 1))
            return receive_all(connection)


def receive_all(connection: socket.socket) -> bytes:
    """All that comes until the other side closes."""
    received = b""
    while chunk := connection.recv(65536):
        received += chunk
    return received


def wait_until(condition: Callable[[], bool]) -> None:
    """Asks again and again until something holds."""
    until = time.monotonic() + PATIENCE
    while not condition():
        assert time.monotonic() < until
        time.sleep(0.02)


def environment(settings: Mapping[str, str] | None = None) -> dict[str, str]:
    """This process's environment without any setting of the service but the given ones."""
    inherited = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(("HEADLIGHT_", "OTEL_"))
    }
    return {**inherited, "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1", **(settings or {})}


@contextmanager
def service(
    checkpoint: Path,
    folder: Path,
    *options: str,
    settings: Mapping[str, str] | None = None,
    program: Sequence[str] = ("-W", "error", "-m", "service"),
    ready: bool = True,
) -> Iterator[RunningService]:
    """Runs the service as a process until the block ends.

    Its log goes to `folder`, and `program` is what Python runs. It is waited for until it is
    `ready`, or only until it accepts.
    """
    log = folder / "service.log"
    command = [sys.executable, *program, "--port", "0", "--checkpoint", str(checkpoint)]
    defaults = ("--dtype", "float32", "--threads", "1", "--log-format", "json")
    with log.open("wb") as output:
        process = subprocess.Popen(
            [*command, *defaults, *options],
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            cwd=ROOT,
            env=environment(settings),
        )
    try:
        running = RunningService(process, _find_address(process, log), log)
        if ready:
            running.wait_for(200)
        yield running
    finally:
        if process.poll() is None:
            process.send_signal(signal.SIGINT)
            try:
                process.wait(PATIENCE)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


def _find_address(process: subprocess.Popen[bytes], log: Path) -> str:
    addresses: list[str] = []

    def is_there() -> bool:
        addresses.extend(_ADDRESS.findall(log.read_text(encoding="utf-8")))
        assert process.poll() is None, log.read_text(encoding="utf-8")
        return bool(addresses)

    wait_until(is_there)
    return addresses[0]


@contextmanager
def local_service(
    checkpoint: Path,
    folder: Path,
    *options: str,
    settings: Mapping[str, str] | None = None,
    changes: AbstractContextManager[object] | None = None,
    ready: bool = True,
) -> Iterator[RunningService]:
    """Runs the service on a thread until the block ends: the same, but starts sooner.

    The patches of `changes` hold while it runs. No child process tries the tokenizer, which a test
    made itself, and the description of the interface is made at the first request for it.
    """
    defaults = ("--dtype", "float32", "--threads", "1")
    arguments = [*("--port", "0", "--checkpoint", str(checkpoint)), *defaults, *options]
    log = logging.FileHandler(folder / "service.log", encoding="utf-8")
    log.setFormatter(LineFormatter(json_line))
    own = logging.getLogger("headlight")
    thread = threading.Thread(target=command.run, args=(arguments,))
    with changes or nullcontext(), ExitStack() as start:
        start.enter_context(_variables(settings or {}))
        start.enter_context(mock.patch.object(command, "configure_logging"))
        start.enter_context(mock.patch.object(command, "share_one_heap"))
        start.enter_context(mock.patch.object(server, "DrainingServer", _LocalServer))
        start.enter_context(mock.patch.object(opening, "try_tokenizer"))
        own.addHandler(log)
        own.setLevel(logging.INFO)
        _LocalServer.latest = None
        thread.start()
        wait_until(lambda: _is_started(thread))
        running_server = cast("_LocalServer", _LocalServer.latest)
        url = server.address(running_server.listening).rstrip("/")
        running = RunningService(cast("Any", None), url, folder / "service.log")
        try:
            if ready:
                running.wait_for(200)
                start.close()  # other tests may go on beside it
            yield running
        finally:
            for order in ("load", "pass"):  # see `misbehaving`
                (folder / order).unlink(missing_ok=True)
            running_server.handle_exit(signal.SIGINT, None)
            thread.join(PATIENCE)
            own.removeHandler(log)
            log.close()
        assert not thread.is_alive()


class _LocalServer(server.DrainingServer):
    """Can be found by the test that started it."""

    latest: "_LocalServer | None" = None
    listening: socket.socket

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Notes its socket once it accepts."""
        await super().startup(sockets)
        assert sockets
        self.listening = sockets[0]
        _LocalServer.latest = self


@contextmanager
def _variables(settings: Mapping[str, str]) -> Iterator[None]:
    """Sets the variables of a service, and touches no other.

    A thread of C or Rust that looks one up meanwhile may crash, so this is undone when none runs.
    """
    with pytest.MonkeyPatch.context() as variables:
        for name in os.environ.keys() - environment().keys():
            variables.delenv(name)
        for name, value in settings.items():
            variables.setenv(name, value)
        yield


def _is_started(thread: threading.Thread) -> bool:
    assert thread.is_alive() or _LocalServer.latest is not None
    return _LocalServer.latest is not None


def shared(
    *options: str,
    scope: Scope = "module",
    files: Mapping[str, str] | None = None,
    changes: Callable[[Path], AbstractContextManager[object]] | None = None,
    **settings: str,
) -> Any:  # noqa: ANN401 - a fixture, whatever pytest makes
    """A fixture: one service with these options and variables for all tests of a scope.

    `{folder}` in one is that of its log and `files`, of which `changes` makes patches.
    """

    @pytest.fixture(scope=scope)
    def running(
        checkpoint_folder: Path, tmp_path_factory: pytest.TempPathFactory
    ) -> Iterator[RunningService]:
        folder = tmp_path_factory.mktemp("shared")
        for name, content in (files or {}).items():
            (folder / name).write_text(content, encoding="utf-8")
        variables = {name: text.format(folder=folder) for name, text in settings.items()}
        patched = changes and changes(folder)
        with local_service(
            checkpoint_folder, folder, *options, settings=variables, changes=patched
        ) as running:
            yield running

    return running


def client_of(service: str) -> Any:  # noqa: ANN401 - a fixture, whatever pytest makes
    """A fixture: a client of the service that another fixture of the module runs."""

    @pytest.fixture(scope="module")
    def client(request: pytest.FixtureRequest) -> Iterator[httpx.Client]:
        with request.getfixturevalue(service).client() as client:
            yield client

    return client
