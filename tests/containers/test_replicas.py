"""What a replica may do: the limits of the compose file are in force."""

import errno
import json
from typing import Any

import pytest

from tests.containers.engine import Engine
from tests.containers.stack import Stack

_GIBIBYTE = 1024**3
_CONNECT = """
import socket
try:
    socket.create_connection(("{address}", 8080), timeout=2).close()
except OSError:
    print(False)
else:
    print(True)
"""


@pytest.fixture(scope="module")
def replica(stack: Stack) -> str:
    """The name of one of two containers, which the compose file makes alike."""
    return stack.replicas()[0]


def _host_config(engine: Engine, container: str) -> dict[str, Any]:
    config: dict[str, Any] = engine.inspect(container)["HostConfig"]
    return config


def test_has_no_privileges(stack: Stack, replica: str) -> None:
    lines = stack.engine.python(replica, "print(open('/proc/1/status').read())").splitlines()
    status = dict(line.split(":\t") for line in lines if ":\t" in line)
    assert status["Uid"].split() == ["10001"] * 4
    assert status["Gid"].split() == ["10001"] * 4
    assert int(status["CapEff"], 16) == 0
    assert int(status["CapBnd"], 16) == 0
    assert status["NoNewPrivs"] == "1"


def test_writes_nowhere_but_to_its_temporary_folder(stack: Stack, replica: str) -> None:
    paths = ["/app/x", "/opt/headlight/x", "/opt/bytecode/x", "/opt/venv/x", "/x", "/tmp/x"]  # noqa: S108
    code = f"""
for path in {paths!r}:
    try:
        with open(path, "w") as file:
            print(file.write("12345"))
    except OSError as error:
        print(-error.errno)
"""
    assert [int(line) for line in stack.engine.python(replica, code).split()] == [
        *[-errno.EROFS] * 5,
        5,
    ]


def test_has_no_way_out(stack: Stack, replica: str) -> None:
    networks = stack.engine.inspect(stack.balancer())["NetworkSettings"]["Networks"]
    addresses = {name.rpartition("_")[2]: item["IPAddress"] for name, item in networks.items()}
    reached = {
        name: stack.engine.python(replica, _CONNECT.format(address=address))
        for name, address in addresses.items()
    }
    assert reached == {"replicas": "True", "public": "False"}


def test_takes_its_threads_from_the_limit(stack: Stack, replica: str) -> None:
    lines = [json.loads(line) for line in stack.engine.docker("logs", replica).splitlines()]
    assert {line["threads"] for line in lines if line["message"] == "model ready"} == {1}


def test_the_balancer_has_limits_too(stack: Stack) -> None:
    config = _host_config(stack.engine, stack.balancer())
    assert config["NanoCpus"] == 1_000_000_000
    assert config["Memory"] == _GIBIBYTE // 4
    assert config["ReadonlyRootfs"] is True
    assert config["CapDrop"] == ["ALL"]
    assert stack.engine.inspect(stack.balancer())["Config"]["User"] not in ("", "root", "0")
