"""API keys, trusted proxies, and the headers that let other origins read an answer."""

import ipaddress
from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from starlette.applications import Starlette
from starlette.middleware.cors import CORSMiddleware
from starlette.types import Receive, Scope, Send

from service.errors import RateLimitedError, Refusal
from service.http.access import (
    ApiKeys,
    RateLimit,
    TrustedProxies,
    client_of,
    cors_headers,
    load_api_keys,
    unauthorized,
)
from service.settings import Rate, Settings, SettingsError
from tests.matching import exactly
from tests.service.connections import answer, get, serving


@given(st.binary(max_size=40))
@example(b"Basic one")
@example(b"bearer  one ")
def test_only_a_right_key_is_admitted(authorization: bytes) -> None:
    assert ApiKeys(frozenset()).admits(authorization)  # without keys, anyone
    keys = ApiKeys(frozenset({"one", "two"}))
    scheme, _, key = authorization.partition(b" ")
    right = scheme.lower() == b"bearer" and key.strip(b" ") in {b"one", b"two"}
    assert keys.admits(authorization) is right
    assert keys.admits(b"Bearer two")
    assert not keys.admits(None)


EXPECTED = "expected `Authorization: Bearer <key>`."
MISSING = "This service needs an API key: send `Authorization: Bearer <key>`"
OTHER = f"Authorization has another scheme, or no key: {EXPECTED}"
QUOTED = f"The API key is in quotation marks: {EXPECTED}"
UNSENDABLE = (
    "The API key has a space, a comma or a character that is not ASCII, which no key has: "
    f"{EXPECTED}"
)
WRONG = "The API key is not valid here: check it, or ask the operator of the service for one."
INVALID = 'Bearer error="invalid_token"'
REFUSALS: list[tuple[list[tuple[bytes, bytes]], str, str]] = [
    ([], f"{MISSING}.", "Bearer"),
    ([(b"x-api-key", b"one")], f"{MISSING}, not in X-API-Key.", "Bearer"),
    ([(b"api-key", b"one")], f"{MISSING}, not in Api-Key.", "Bearer"),
    (
        [(b"authorization", b"Bearer one")] * 2,
        "Authorization is given 2 times: expected one `Authorization: Bearer <key>`.",
        "Bearer",
    ),
    ([(b"authorization", b"Basic b25l")], OTHER, "Bearer"),
    ([(b"authorization", b"bearer   ")], OTHER, "Bearer"),
    ([(b"authorization", b'Bearer "one"')], QUOTED, INVALID),
    ([(b"authorization", b"Bearer \xff")], UNSENDABLE, INVALID),
    ([(b"authorization", b"Bearer three")], WRONG, INVALID),
    ([(b"authorization", b"BEARER three"), (b"x-api-key", b"one")], WRONG, INVALID),
]


@pytest.mark.parametrize(("sent", "detail", "challenged"), REFUSALS)
def test_a_refusal_says_what_to_send(
    sent: list[tuple[bytes, bytes]], detail: str, challenged: str
) -> None:
    error = unauthorized(sent)
    assert (error.detail, error.headers) == (detail, {"WWW-Authenticate": challenged})


def test_blank_settings_are_no_keys() -> None:
    # Compose files pass an unset variable on as an empty one.
    assert not load_api_keys(Settings.model_validate({"api_keys": "", "api_keys_file": " "}))


def test_a_file_without_keys_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "keys"
    path.write_text("\n \n", encoding="utf-8")
    expected = exactly(
        "1 setting is wrong:\n  HEADLIGHT_API_KEYS_FILE: is set but holds no key: unset it to let "
        "anyone in"
    )
    with pytest.raises(SettingsError, match=expected):
        load_api_keys(Settings.model_validate({"api_keys_file": path}))


def test_keys_that_cannot_be_sent_are_refused_and_not_shown(tmp_path: Path) -> None:
    path = tmp_path / "keys"
    path.write_bytes(b"good\nb\xff\n")
    with pytest.raises(SettingsError) as refused:
        load_api_keys(Settings.model_validate({"api_keys": "fine,not fine", "api_keys_file": path}))
    assert refused.value.errors == [
        "HEADLIGHT_API_KEYS: key number 2 holds a character that is not visible ASCII, or a comma",
        f"HEADLIGHT_API_KEYS_FILE: cannot read {path}: is not UTF-8",
    ]


EXPOSED = (b"access-control-expose-headers", b"X-Request-ID, Retry-After")


@pytest.mark.parametrize(
    ("origins", "asking", "expected"),
    [
        ([], b"https://a.example", ()),
        (["https://a.example"], None, ()),
        (["https://a.example"], b"https://b.example", ()),
        (["https://a.example"], b"null", ()),
        (
            ["https://b.example", "https://a.example"],
            b"https://a.example",
            (
                EXPOSED,
                (b"access-control-allow-origin", b"https://a.example"),
                (b"vary", b"Origin"),
            ),
        ),
        (["*"], b"https://a.example", ((b"access-control-allow-origin", b"*"), EXPOSED)),
    ],
)
def test_headers_for_pages_from_elsewhere(
    origins: list[str], asking: bytes | None, expected: tuple[tuple[bytes, bytes], ...]
) -> None:
    given = [(b"host", b"c.example")] + ([] if asking is None else [(b"origin", asking)])
    cors = CORSMiddleware(Starlette(), origins, expose_headers=["X-Request-ID", "Retry-After"])
    assert tuple(cors_headers(cors, given)) == expected


KEYS = ApiKeys(frozenset({"mine", "yours"}))
PEER = ("192.0.2.1", 4711)


def headers(key: str) -> list[tuple[bytes, bytes]]:
    return [(b"authorization", f"Bearer {key}".encode())]


def test_a_client_is_a_key_else_an_address_of_a_proxy_else_a_connection() -> None:
    mine = client_of(KEYS, PEER, headers("mine"))
    assert mine == client_of(KEYS, ("192.0.2.9", 1), headers("mine"))
    assert mine != client_of(KEYS, PEER, headers("yours"))
    assert b"mine" not in str(mine).encode()
    none = ApiKeys(frozenset())
    for keys, sent in ((none, headers("mine")), (KEYS, headers("wrong")), (KEYS, [])):
        assert client_of(keys, PEER, sent) == PEER
        assert client_of(keys, ("192.0.2.1", 0), sent) == ("192.0.2.1", 0)
    assert client_of(KEYS, PEER, headers("mine") * 2) == PEER
    assert client_of(none, None, []) is None


@pytest.mark.parametrize(
    ("host", "client"),
    [
        ("2001:db8:0:1:a::1", "2001:db8:0:1::"),
        ("2001:db8:0:1:b::2", "2001:db8:0:1::"),
        ("2001:db8:0:2::1", "2001:db8:0:2::"),
        ("::ffff:192.0.2.1", "192.0.2.1"),
        ("fe80::1%eth0", "fe80::"),
    ],
)
def test_a_client_of_ipv6_is_its_network(host: str, client: str) -> None:
    assert client_of(ApiKeys(frozenset()), (host, 7), []) == (client, 7)


PROXY = ("10.1.2.3", 50_000)
NETWORKS = ("10.0.0.0/8", "2001:db8::1")


def forwarded_by(
    peer: tuple[str, int] | None, *forwarded: str, networks: tuple[str, ...] = NETWORKS
) -> tuple[str, int] | None:
    headers = [(b"x-forwarded-for", value.encode("latin-1")) for value in forwarded]
    return TrustedProxies(networks).client_of(peer, [(b"host", b"x"), *headers])


@pytest.mark.parametrize(
    ("forwarded", "address"),
    [
        (["192.0.2.1"], "192.0.2.1"),
        (["[2001:DB8::2]:4711"], "2001:db8::2"),
        (["198.51.100.1, 192.0.2.1"], "192.0.2.1"),  # a client's own claim stands before it
        (["198.51.100.1", "192.0.2.1"], "192.0.2.1"),
        (["198.51.100.1, 192.0.2.1, 10.9.9.9"], "192.0.2.1"),  # two proxies
    ],
)
def test_a_trusted_proxy_forwards_the_address(forwarded: list[str], address: str) -> None:
    assert forwarded_by(PROXY, *forwarded) == (address, 0)


@pytest.mark.parametrize(
    "peer", [("192.0.2.9", 50_000), ("11.0.0.1", 50_000), ("2001:db8::2", 50_000), None]
)
def test_anyone_else_is_who_they_are(peer: tuple[str, int] | None) -> None:
    assert forwarded_by(peer, "192.0.2.1") == peer
    trusted = forwarded_by(peer, "192.0.2.1", networks=("*",))
    assert trusted == (None if peer is None else ("192.0.2.1", 0))


def test_a_proxy_that_forwards_nothing_is_the_client() -> None:
    assert forwarded_by(PROXY) == PROXY
    assert forwarded_by(("::ffff:10.1.2.3", 50_000), "192.0.2.1") == ("192.0.2.1", 0)


@given(st.lists(st.text(st.characters(max_codepoint=255)), max_size=4))
def test_only_addresses_are_taken(forwarded: list[str]) -> None:
    client = forwarded_by(PROXY, *forwarded)
    assert client is not None
    assert client == PROXY or client == (str(ipaddress.ip_address(client[0])), 0)


@pytest.mark.parametrize(
    ("networks", "forwarded"), [(("127.0.0.0/8",), True), (("10.0.0.0/8",), False), (None, False)]
)
async def test_the_application_sees_the_address(
    networks: tuple[str, ...] | None, *, forwarded: bool
) -> None:
    seen: list[Scope] = []

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


def test_all_may_be_used_at_once_and_comes_back_at_a_constant_rate() -> None:
    now = 1000.0
    limit = RateLimit(Rate(60, "minute"), "requests", refusal=Refusal.RATE_LIMIT, clock=lambda: now)
    for _ in range(60):
        limit.spend("a")
    message = (
        "1 requests are wanted and 0 are left; the limit is 60/minute: wait, or ask the operator "
        "of the service for more."
    )
    with pytest.raises(RateLimitedError, match=exactly(message)) as caught:
        limit.spend("a")
    assert caught.value.retry_after == 1
    assert caught.value.refusal is Refusal.RATE_LIMIT
    limit.spend("b")
    now += 0.9
    with pytest.raises(RateLimitedError):
        limit.spend("a")
    now += 0.1
    limit.spend("a")
    now += 10_000
    for _ in range(60):
        limit.spend("a")
    with pytest.raises(RateLimitedError):
        limit.spend("a")


def test_a_request_for_more_than_all_leaves_a_debt() -> None:
    now = 1000.0
    limit = RateLimit(Rate(100, "second"), "tokens", refusal=Refusal.QUOTA, clock=lambda: now)
    limit.spend("a", 300)
    now += 2.0
    with pytest.raises(RateLimitedError) as caught:
        limit.spend("a", 50)
    assert caught.value.retry_after == 1
    now += 0.5
    limit.spend("a", 50)


def test_only_so_many_clients_are_remembered() -> None:
    limit = RateLimit(Rate(1, "day"), "requests", refusal=Refusal.RATE_LIMIT, clock=lambda: 0.0)
    for number in range(10_001):
        limit.spend(number)
    limit.spend(0)  # was seen first, and is forgotten
    with pytest.raises(RateLimitedError):
        limit.spend(10_000)
