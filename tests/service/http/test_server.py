"""The listening socket and its address."""

import socket

import pytest

from service.http.server import address, listen


def test_any_free_port() -> None:
    with listen("127.0.0.1", 0) as listening:
        port = listening.getsockname()[1]
        assert address(listening) == f"http://127.0.0.1:{port}/"
        with pytest.raises(OSError, match="Address already in use"):
            listen("127.0.0.1", port)


def test_all_addresses_are_shown_as_this_machine() -> None:
    with listen("0.0.0.0", 0) as listening:
        assert address(listening) == f"http://127.0.0.1:{listening.getsockname()[1]}/"


@pytest.mark.skipif(not socket.has_ipv6, reason="this machine has no IPv6")
def test_ipv6_is_shown_in_brackets() -> None:
    with listen("::1", 0) as listening:
        assert address(listening) == f"http://[::1]:{listening.getsockname()[1]}/"
