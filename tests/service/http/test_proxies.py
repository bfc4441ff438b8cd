"""The address of a client, from a proxy that is trusted and from one that is not."""

import ipaddress

import pytest
from hypothesis import given
from hypothesis import strategies as st
from starlette.types import Receive, Scope, Send

from service.http.proxies import TrustedProxies, is_forwarded
from tests.service.connections import Run, answer, get, serving

PROXY = ("10.1.2.3", 50_000)
NETWORKS = ("10.0.0.0/8", "2001:db8::1")


def client_of(
    peer: tuple[str, int] | None, *told: str, networks: tuple[str, ...] = NETWORKS
) -> tuple[str, int] | None:
    headers = [(b"x-forwarded-for", value.encode("latin-1")) for value in told]
    return TrustedProxies(networks).client_of(peer, [(b"host", b"x"), *headers])


@pytest.mark.parametrize(
    ("told", "address"),
    [
        (["192.0.2.1"], "192.0.2.1"),
        (["192.0.2.1:4711"], "192.0.2.1"),
        (["[2001:DB8::2]:4711"], "2001:db8::2"),
        (["2001:db8:0::2"], "2001:db8::2"),
        (["198.51.100.1, 192.0.2.1"], "192.0.2.1"),  # a client's own claim stands before it
        (["198.51.100.1", "192.0.2.1"], "192.0.2.1"),
        (["198.51.100.1, 192.0.2.1, 10.9.9.9"], "192.0.2.1"),  # two proxies
        (["10.7.7.7"], "10.7.7.7"),  # a client in the network of the proxies
    ],
)
def test_a_trusted_proxy_tells_the_address(told: list[str], address: str) -> None:
    assert client_of(PROXY, *told) == (address, 0)


@pytest.mark.parametrize(
    "peer", [("192.0.2.9", 50_000), ("11.0.0.1", 50_000), ("2001:db8::2", 50_000), None]
)
def test_everybody_else_is_who_they_are(peer: tuple[str, int] | None) -> None:
    assert client_of(peer, "192.0.2.1") == peer


@pytest.mark.parametrize("peer", [PROXY, ("::ffff:10.1.2.3", 50_000), ("2001:db8::1", 50_000)])
def test_a_proxy_that_tells_nothing_is_the_client(peer: tuple[str, int]) -> None:
    assert client_of(peer) == peer
    assert client_of(peer, "192.0.2.1") == ("192.0.2.1", 0)


def test_a_star_trusts_every_sender() -> None:
    assert client_of(("192.0.2.9", 1), "198.51.100.1", networks=("*",)) == ("198.51.100.1", 0)


@given(st.lists(st.text(st.characters(max_codepoint=255)), max_size=4))
def test_only_addresses_are_taken(told: list[str]) -> None:
    client = client_of(PROXY, *told)
    assert client is not None
    assert client == PROXY or client == (str(ipaddress.ip_address(client[0])), 0)
    assert is_forwarded({"type": "http", "client": client}) == (client != PROXY)


@pytest.mark.parametrize(
    ("networks", "forwarded"), [(("127.0.0.0/8",), True), (("10.0.0.0/8",), False), (None, False)]
)
def test_the_application_sees_the_address(
    run: Run, networks: tuple[str, ...] | None, *, forwarded: bool
) -> None:
    seen: list[Scope] = []

    async def work() -> None:
        async def app(scope: Scope, receive: Receive, send: Send) -> None:
            del receive
            seen.append(scope)
            await answer(send, b"/")

        proxies = TrustedProxies(networks) if networks else None
        async with serving(app, proxies=proxies) as served:
            client = await served.connect()
            await client.say(get("/", b"X-Forwarded-For: 192.0.2.1", b"Connection: close"))
            await client.hear()
            port = client.writer.get_extra_info("sockname")[1]
            assert seen[0]["client"] == (("192.0.2.1", 0) if forwarded else ("127.0.0.1", port))

    run(work())
    assert is_forwarded(seen[0]) is forwarded
