"""The listening socket, its address, and how many connections the open files allow."""

import socket

import pytest

from service.http import server, transport
from service.http.server import address, listen, plan_capacity


@pytest.mark.parametrize(
    ("host", "shown"),
    [
        ("0.0.0.0", "127.0.0.1"),  # all addresses are shown as this machine
        pytest.param("::1", "[::1]", marks=pytest.mark.skipif(not socket.has_ipv6, reason="IPv4")),
    ],
)
def test_the_address_can_be_opened(host: str, shown: str) -> None:
    with listen(host, 0) as listening:
        assert address(listening) == f"http://{shown}:{listening.getsockname()[1]}/"


@pytest.mark.parametrize(
    ("files", "connections_", "backlog"),
    [(120, 48, 16), (1024, 726, 242), (20_000, 4096, 2048), (-1, 4096, 2048)],
)
def test_the_open_files_decide(files: int, connections_: int, backlog: int) -> None:
    assert plan_capacity("auto", files) == (connections_, backlog)
    assert plan_capacity(connections_, files) == (connections_, backlog)
    if files > 0:
        assert connections_ + backlog + transport.EXTRA + server._OWN_FILES <= files


@pytest.mark.parametrize(
    ("wanted", "files", "error"),
    [
        (
            100,
            120,
            "100 connections do not fit into 120 open files: raise the limit (ulimit -n) to 272 or "
            "more, or lower this to 48 or less",
        ),
        (
            "auto",
            64,
            "16 connections do not fit into 64 open files: raise the limit (ulimit -n) to 104 or "
            "more",
        ),
    ],
)
def test_what_the_open_files_do_not_allow(wanted: int, files: int, error: str) -> None:
    with pytest.raises(ValueError, match="open files") as caught:
        plan_capacity(wanted, files)
    assert str(caught.value) == error
    raised = int(error.partition("-n) to ")[2].split()[0])
    assert plan_capacity(wanted, raised).connections >= 16


def test_without_limits_of_open_files_as_on_windows(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server, "resource", None)
    assert plan_capacity("auto") == (4096, 2048)
