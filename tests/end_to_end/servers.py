"""Starts the service as a process of its own and asks it over a socket."""

import os
import re
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import httpx

ROOT = Path(__file__).parents[2]
_ADDRESS = re.compile(r"the page is at (http://\S+?)/[\"\s]")
_PATIENCE = 60.0


@dataclass(frozen=True, slots=True)
class RunningService:
    """A process and where it answers.

    Args:
        process: of the service.
        url: without a slash at the end.
        log: the file that its standard output and error go to.
    """

    process: subprocess.Popen[bytes]
    url: str
    log: Path

    @property
    def port(self) -> int:
        """The port that it listens on."""
        port = httpx.URL(self.url).port
        assert port is not None
        return port

    def client(self, **headers: str) -> httpx.Client:
        """A client with connections of its own."""
        return httpx.Client(base_url=self.url, headers=headers, timeout=_PATIENCE)

    def wait_for(self, status: int, path: str = "/health/ready") -> httpx.Response:
        """Asks until the answer has a status."""
        until = time.monotonic() + _PATIENCE
        while True:
            response = httpx.get(self.url + path, timeout=_PATIENCE)
            if response.status_code == status:
                return response
            assert time.monotonic() < until, f"{path} still answers {response.status_code}"
            time.sleep(0.05)

    def send(self, data: bytes, *, until_closed: bool = True) -> bytes:
        """What comes back for raw bytes on a connection of their own."""
        with socket.create_connection(("127.0.0.1", self.port), timeout=_PATIENCE) as connection:
            connection.sendall(data)
            received = b""
            while chunk := connection.recv(65536):
                received += chunk
                if not until_closed:
                    break
        return received


def environment(settings: Mapping[str, str] | None = None) -> dict[str, str]:
    """This process's environment without any setting of the service but the given ones."""
    inherited = {
        name: value for name, value in os.environ.items() if not name.startswith("HEADLIGHT_")
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
    """Runs the service until the block ends.

    Args:
        checkpoint: the folder to serve.
        folder: where the log goes.
        options: of the command line.
        settings: environment variables.
        program: what Python runs.
        ready: whether to wait until it is ready, or only until it accepts.
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
                process.wait(_PATIENCE)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


def _find_address(process: subprocess.Popen[bytes], log: Path) -> str:
    until = time.monotonic() + _PATIENCE
    while time.monotonic() < until:
        found = _ADDRESS.search(log.read_text(encoding="utf-8"))
        if found is not None:
            return found[1]
        assert process.poll() is None, log.read_text(encoding="utf-8")
        time.sleep(0.05)
    raise AssertionError(f"no address in the log: {log.read_text(encoding='utf-8')}")
