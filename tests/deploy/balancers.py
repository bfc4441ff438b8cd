"""Runs the project's configurations of five balancers, with other ports and addresses in them."""

import os
import re
import shutil
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

import httpx
import pytest

DEPLOY = Path(__file__).parents[2] / "deploy"
_PATIENCE = 60


@dataclass(frozen=True, slots=True)
class Balancer:
    """A balancer that runs."""

    name: str
    port: int
    metrics_port: int
    tls_port: int
    log: Path


@dataclass(frozen=True, slots=True)
class _Kind:
    """How one kind is run; each pattern of `changes` must be in its files exactly once."""

    files: tuple[str, ...]
    changes: Callable[[Path, Sequence[int], Sequence[int]], dict[str, str]]
    command: Callable[[Path], list[str]]


def _haproxy(_: Path, own: Sequence[int], replicas: Sequence[int]) -> dict[str, str]:
    servers = [f"    server api{n} 127.0.0.1:{port}" for n, port in enumerate(replicas, 1)]
    return {
        r"bind :8080": f"bind 127.0.0.1:{own[0]}",
        r"bind :8405": f"bind 127.0.0.1:{own[1]}",
        r"resolvers docker\n(?:    .*\n)+": "",
        r"    server-template .*": "\n".join(servers),
    }


def _envoy(_: Path, own: Sequence[int], replicas: Sequence[int]) -> dict[str, str]:
    return {
        r"address: 0\.0\.0\.0, port_value: 8080": f"address: 127.0.0.1, port_value: {own[0]}",
        r"port_value: 9901": f"port_value: {own[1]}",
        **{
            rf"address: api{n}, port_value: 8000": f"address: 127.0.0.1, port_value: {port}"
            for n, port in enumerate(replicas, 1)
        },
    }


def _traefik(folder: Path, own: Sequence[int], replicas: Sequence[int]) -> dict[str, str]:
    return {
        r'":8080"': f'"127.0.0.1:{own[0]}"',
        r"/etc/traefik/": f"{folder}/",
        **{rf"api{n}:8000": f"127.0.0.1:{port}" for n, port in enumerate(replicas, 1)},
    }


def _caddy(_: Path, own: Sequence[int], replicas: Sequence[int]) -> dict[str, str]:
    return {
        r"^:8080 {": f":{own[0]} {{\n\tbind 127.0.0.1",
        **{rf"api{n}:8000": f"127.0.0.1:{port}" for n, port in enumerate(replicas, 1)},
    }


def _nginx(folder: Path, own: Sequence[int], replicas: Sequence[int]) -> dict[str, str]:
    places = ("nginx.pid", "nginx-bodies", "nginx-answers", *(f"nginx-unused-{n}" for n in "123"))
    return {
        r"listen 8080": f"listen 127.0.0.1:{own[0]}",
        **{rf"/tmp/{place};": f"{folder}/{place};" for place in places},  # noqa: S108
        **{rf"api{n}:8000": f"127.0.0.1:{port}" for n, port in enumerate(replicas, 1)},
    }


def _haproxy_tls(folder: Path, own: Sequence[int], replicas: Sequence[int]) -> dict[str, str]:
    return {
        **_haproxy(folder, own, replicas),
        r"bind :8443": f"bind 127.0.0.1:{own[2]}",
        r"/certs/": f"{folder}/certs/",
    }


_KINDS = {
    "haproxy": _Kind(("haproxy.cfg",), _haproxy, lambda file: ["-f", str(file)]),
    "envoy": _Kind(
        ("envoy.yaml",),
        _envoy,
        lambda file: [
            *("-c", str(file), "--log-level", "error", "--disable-hot-restart"),
            *("--file-flush-interval-msec", "100"),
        ],
    ),
    "traefik": _Kind(
        ("traefik/traefik.yaml", "traefik/routes.yaml"),
        _traefik,
        lambda file: [f"--configFile={file}"],
    ),
    "caddy": _Kind(
        ("Caddyfile",),
        _caddy,
        lambda file: ["run", "--adapter", "caddyfile", "--config", str(file)],
    ),
    "nginx": _Kind(
        ("nginx.conf",),
        _nginx,
        lambda file: ["-e", "stderr", "-g", "daemon off;", "-c", str(file)],
    ),
}
NAMES = tuple(_KINDS)
_KINDS["haproxy-tls"] = _Kind(
    ("haproxy.cfg", "haproxy-tls.cfg"),
    _haproxy_tls,
    lambda file: ["-f", str(file), "-f", str(file.with_name("haproxy-tls.cfg"))],
)


def program(name: str) -> str | None:
    """Where a balancer's program is: in the environment that runs this, else on the path."""
    name = name.removesuffix("-tls")
    beside = Path(sys.executable).parent / name
    return str(beside) if beside.exists() else shutil.which(name)


def each(*names: str) -> list[object]:
    """Parameters for balancers; one that is missing makes its tests skip, unless CI is set."""
    return [
        pytest.param(
            name,
            marks=pytest.mark.skipif(
                program(name) is None and "CI" not in os.environ, reason=f"{name} is not installed"
            ),
        )
        for name in names or NAMES
    ]


@contextmanager
def balancer(name: str, replicas: Sequence[int], folder: Path) -> Iterator[Balancer]:
    """Runs a balancer for as long as the block lasts; it may not answer yet."""
    found = program(name)
    assert found is not None, f"{name} is not installed"
    kind = _KINDS[name]
    with ExitStack() as held:
        own = [free_port(held) for _ in range(3)]
    text = "\0".join((DEPLOY / file).read_text(encoding="utf-8") for file in kind.files)
    for pattern, instead in kind.changes(folder, own, replicas).items():
        text, count = re.subn(pattern, instead.replace("\\", r"\\"), text, flags=re.MULTILINE)
        assert count == 1, f"{name}: {pattern} is there {count} times"
    paths = [folder / Path(file).name for file in kind.files]
    for path, content in zip(paths, text.split("\0"), strict=True):
        path.write_text(content, encoding="utf-8")
    log = folder / f"{name}.log"
    with running_process([found, *kind.command(paths[0])], log):
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


def free_port(held: ExitStack) -> int:
    """A port that nothing uses, held until the stack is closed."""
    port: int = held.enter_context(socket.create_server(("127.0.0.1", 0))).getsockname()[1]
    return port
