"""Runs the project's configurations of HAProxy and nginx, and two services behind them."""

import os
import re
import shutil
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

import httpx
import pytest

from tests.end_to_end.servers import RunningService, service

DEPLOY = Path(__file__).parents[2] / "deploy"
NAMES = ("haproxy", "nginx")
_FILES = {
    "haproxy": ["haproxy.cfg"],
    "haproxy-tls": ["haproxy.cfg", "haproxy-tls.cfg"],
    "nginx": ["nginx.conf"],
}
_PATIENCE = 60


@dataclass(frozen=True, slots=True)
class Balancer:
    name: str
    port: int
    metrics_port: int
    tls_port: int
    log: Path

    @property
    def url(self) -> str:
        """Its address, without a slash at the end."""
        return f"http://127.0.0.1:{self.port}"


def program(name: str) -> str | None:
    """Where a program is: in the environment that runs this, else on the path."""
    beside = Path(sys.executable).parent / name
    return str(beside) if beside.exists() else shutil.which(name)


def needs(*names: str) -> pytest.MarkDecorator:
    """Skips tests whose programs are missing, unless CI is set."""
    missing = [name for name in names if program(name) is None]
    return pytest.mark.skipif(
        bool(missing) and "CI" not in os.environ, reason=f"{' and '.join(missing)} is not installed"
    )


EACH = [pytest.param(name, marks=needs(name)) for name in NAMES]


def _changes(
    name: str, folder: Path, own: Sequence[int], replicas: Sequence[int]
) -> dict[str, str]:
    """What replaces the ports and addresses of a file; each pattern is there exactly once."""
    if name == "nginx":
        names = (
            "nginx.pid",
            "nginx-bodies",
            "nginx-answers",
            *(f"nginx-unused-{n}" for n in "123"),
        )
        return {
            r"listen 8080": f"listen 127.0.0.1:{own[0]}",
            **{rf"/tmp/{name};": f"{folder}/{name};" for name in names},  # noqa: S108
            **{rf"api{n}:8000": f"127.0.0.1:{port}" for n, port in enumerate(replicas, 1)},
        }
    servers = [f"    server api{n} 127.0.0.1:{port}" for n, port in enumerate(replicas, 1)]
    changes = {
        r"bind :8080": f"bind 127.0.0.1:{own[0]}",
        r"bind :8405": f"bind 127.0.0.1:{own[1]}",
        r"resolvers docker\n(?:    .*\n)+": "",
        r"    server-template .*": "\n".join(servers),
    }
    if name == "haproxy-tls":
        changes |= {r"bind :8443": f"bind 127.0.0.1:{own[2]}", r"/certs/": f"{folder}/certs/"}
    return changes


@contextmanager
def balancer(name: str, replicas: Sequence[int], folder: Path) -> Iterator[Balancer]:
    """Runs a balancer for as long as the block lasts; it may not answer yet."""
    found = program(name.removesuffix("-tls"))
    assert found is not None, f"{name} is not installed"
    own = free_ports(3)
    text = "\0".join((DEPLOY / file).read_text(encoding="utf-8") for file in _FILES[name])
    for pattern, instead in _changes(name, folder, own, replicas).items():
        text, count = re.subn(pattern, instead.replace("\\", r"\\"), text)
        assert count == 1, f"{name}: {pattern} is there {count} times"
    paths = [folder / file for file in _FILES[name]]
    for path, content in zip(paths, text.split("\0"), strict=True):
        path.write_text(content, encoding="utf-8")
    options = [word for path in paths for word in ("-f", str(path))]
    if name == "nginx":
        options = ["-e", "stderr", "-g", "daemon off;", "-c", str(paths[0])]
    log = folder / f"{name}.log"
    with running_process([found, *options], log):
        yield Balancer(name, own[0], own[1], own[2], log)


@contextmanager
def running_process(command: Sequence[str], log: Path) -> Iterator[None]:
    """Runs a program for as long as the block lasts, in which it must not end."""
    with (
        log.open("wb") as output,
        subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            env={"PATH": os.environ["PATH"], "HOME": str(log.parent)},
        ) as process,
    ):
        try:
            yield
            assert process.poll() is None, log.read_text(encoding="utf-8", errors="replace")
        finally:
            process.terminate()
            try:
                process.wait(_PATIENCE)
            except subprocess.TimeoutExpired:
                process.kill()


def answers(url: str) -> bool:
    """Whether a URL is answered with 200 now."""
    try:
        return httpx.get(url, timeout=_PATIENCE).status_code == 200
    except httpx.TransportError:
        return False


def free_ports(count: int) -> list[int]:
    with ExitStack() as held:
        sockets = [held.enter_context(socket.create_server(("127.0.0.1", 0))) for _ in range(count)]
        return [each.getsockname()[1] for each in sockets]


class Replicas:
    """Two services on ports that stay theirs, so that each can end and come back."""

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
        self.ports = free_ports(2)
        self.running: dict[int, RunningService] = {}
        self._stacks: dict[int, ExitStack] = {}

    def __enter__(self) -> "Replicas":
        with ExitStack() as stack:
            stack.callback(self._close)
            self.start(0)
            self.start(1)
            stack.pop_all()
        return self

    def __exit__(self, *_: object) -> None:
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

    def _close(self) -> None:
        for stack in self._stacks.values():
            stack.close()
