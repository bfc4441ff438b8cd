"""Who may come in: by API key, proxy, rate, room in the queue, and how full the memory is."""

import hashlib
import ipaddress
import json
from collections.abc import Callable, Hashable, Sequence
from pathlib import Path
from unittest import mock

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from starlette.applications import Starlette
from starlette.middleware.cors import CORSMiddleware
from starlette.types import Scope

from model.backends import threads
from service.errors import OverloadedError, RateLimitedError, Refusal
from service.http import access
from service.http.access import (
    LARGE_SHARE,
    Address,
    ApiKeys,
    Gate,
    MemoryWatch,
    RateLimit,
    TrustedProxies,
    client_of,
    load_api_keys,
    require_client,
    unauthorized,
)
from service.http.middleware import Lifecycle
from service.metrics import Metrics
from service.settings import Rate, Settings, SettingsError
from tests.matching import exactly


@given(st.binary(max_size=40))
@example(b"Basic one")
@example(b"bearer  one ")
def test_only_a_right_key_is_admitted(authorization: bytes) -> None:
    keys = ApiKeys({"one": None, "two": None})
    scheme, _, key = authorization.partition(b" ")
    right = scheme.lower() == b"bearer" and key.strip(b" ") in {b"one", b"two"}
    assert (keys.find(authorization) is not None) is right
    assert keys.find(b"Bearer two") is not None
    assert keys.find(None) is None


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
    path.write_text("\n \n", encoding="utf-8-sig", newline="\r\n")  # as on Windows
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


@pytest.mark.parametrize(
    ("lines", "names"),
    [
        ("one\ntwo", {"one": None, "two": None}),
        ("\ufeffbilling:one\r\n\r\n search : two \r\n", {"one": "billing", "two": "search"}),
        ("a.B_9-z:k:e:y", {"k:e:y": "a.B_9-z"}),
        ("billing:old\nbilling:new", {"old": "billing", "new": "billing"}),
        ("one\nbilling:one\none", {"one": "billing"}),
    ],
)
def test_a_line_of_the_file_may_name_its_key(
    lines: str, names: dict[str, str | None], tmp_path: Path
) -> None:
    path = tmp_path / "keys"
    path.write_bytes(lines.encode())
    keys = load_api_keys(Settings.model_validate({"api_keys": "a:b", "api_keys_file": path}))
    found = {key: keys.names[hashlib.sha256(key.encode()).digest()] for key in (*names, "a:b")}
    assert found == {**names, "a:b": None}  # what the variable has is all key
    assert len(keys.names) == len(found)


NEITHER = (
    "is neither KEY nor NAME:KEY: a key is visible ASCII without commas, a name 1 to 64 of "
    "A-Z a-z 0-9 . _ -; a key with a colon needs a name"
)


@pytest.mark.parametrize(
    "line",
    [
        *(":sesame", "billing:", ":", "bil ling:sesame", "b\u00fcro:sesame", "a/b:sesame"),
        *(f"{'x' * 65}:sesame", "billing:ses,ame", "billing:ses ame", "sesam\u00e9", "ses\x1came"),
    ],
)
def test_a_malformed_line_is_named_by_its_number_and_not_shown(line: str, tmp_path: Path) -> None:
    path = tmp_path / "keys"
    path.write_text(f"\nbilling:one\n{line}\nsearch:one\n", encoding="utf-8")
    with pytest.raises(SettingsError) as refused:
        load_api_keys(Settings.model_validate({"api_keys_file": path}))
    assert refused.value.errors == [
        f"HEADLIGHT_API_KEYS_FILE: line 3 {NEITHER}",
        "HEADLIGHT_API_KEYS_FILE: line 4 gives another name to the key of an earlier line",
    ]


KEYS = ApiKeys({"mine": None, "yours": "theirs"})
PEER = ("192.0.2.1", 4711)


def client(keys: ApiKeys, peer: Address | None, headers: list[tuple[bytes, bytes]]) -> object:
    scope: Scope = {"client": peer, "headers": headers}
    first = client_of(keys, scope)
    assert require_client(ApiKeys({}), scope) == first  # the scope holds it
    return first


def headers(key: str) -> list[tuple[bytes, bytes]]:
    return [(b"authorization", f"Bearer {key}".encode())]


def test_a_client_is_a_key_else_an_address_of_a_proxy_else_a_connection() -> None:
    mine = client(KEYS, PEER, headers("mine"))
    assert mine == client(KEYS, ("192.0.2.9", 1), headers("mine"))
    assert mine != client(KEYS, PEER, headers("yours"))
    assert b"mine" not in str(mine).encode()
    none = ApiKeys({})
    for keys, sent in ((none, headers("mine")), (KEYS, headers("wrong")), (KEYS, [])):
        assert client(keys, PEER, sent) == PEER
        assert client(keys, ("192.0.2.1", 0), sent) == ("192.0.2.1", 0)
    assert client(KEYS, PEER, headers("mine") * 2) == PEER
    assert client(none, None, []) is None


@pytest.mark.parametrize(
    ("host", "expected"),
    [
        ("2001:db8:0:1:a::1", "2001:db8:0:1::"),
        ("2001:db8:0:1:b::2", "2001:db8:0:1::"),
        ("2001:db8:0:2::1", "2001:db8:0:2::"),
        ("::ffff:192.0.2.1", "192.0.2.1"),
        ("fe80::1%eth0", "fe80::"),
    ],
)
def test_a_client_of_ipv6_is_its_network(host: str, expected: str) -> None:
    assert client(ApiKeys({}), (host, 7), []) == (expected, 7)


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


def test_a_proxy_may_have_a_mapped_address() -> None:
    assert forwarded_by(("::ffff:10.1.2.3", 50_000), "192.0.2.1") == ("192.0.2.1", 0)


@given(st.lists(st.text(st.characters(max_codepoint=255)), max_size=4))
def test_only_addresses_are_taken(forwarded: list[str]) -> None:
    client = forwarded_by(PROXY, *forwarded)
    assert client is not None
    assert client == PROXY or client == (str(ipaddress.ip_address(client[0])), 0)


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


@pytest.mark.parametrize(
    ("spent", "after", "left"),
    [
        (0, 0.0, '"tokens";r=100;t=36'),  # one more comes back in 36 seconds
        (1, 0.0, '"tokens";r=99;t=36'),
        (1, 35.5, '"tokens";r=99;t=1'),
        (1, 36.0, '"tokens";r=100;t=36'),
        (100, 0.0, '"tokens";r=0;t=36'),
        (150, 0.0, '"tokens";r=0;t=1836'),
    ],
)
def test_what_is_left_and_for_how_long_it_is_all(spent: int, after: float, left: str) -> None:
    now = 1000.0
    limit = RateLimit(Rate(100, "hour"), "tokens", refusal=Refusal.QUOTA, clock=lambda: now)
    if spent:
        limit.spend("a", spent)
    now += after
    assert limit.items("a") == ('"tokens";q=100;w=3600;qu="tokens"', left)


def test_only_so_many_clients_are_remembered() -> None:
    limit = RateLimit(Rate(1, "day"), "requests", refusal=Refusal.RATE_LIMIT, clock=lambda: 0.0)
    for number in range(10_001):
        limit.spend(number)
    limit.spend(0)  # was seen first, and is forgotten
    with pytest.raises(RateLimitedError):
        limit.spend(10_000)


def full(client: Hashable, route: str, seconds: float) -> None:
    assert (client, route, seconds) == (PEER, "/predict", 5.0)  # the route, whatever the path
    raise OverloadedError("full.", refusal=Refusal.DEADLINE, retry_after=3)


def scope_of(method: str, path: str, headers: Sequence[tuple[bytes, bytes]] = ()) -> Scope:
    return {"method": method, "path": path, "client": PEER, "headers": headers}


@pytest.mark.parametrize(("path", "closes"), [("/predict", False), ("/hf", True)])
async def test_a_refusal_has_a_complete_answer(path: str, *, closes: bool) -> None:
    """On a path of another system it repeats its detail as `error`."""
    gate = Gate(
        full,
        Lifecycle(),
        Metrics([("/predict", "POST", {200, 503})]),
        watch(Path("/nowhere")),
        api_keys=ApiKeys({}),
        routes={("POST", "/predict"): "/predict", ("POST", "/hf"): "/predict"},
        with_error={("POST", "/hf")},
        seconds=5.0,
        cors=CORSMiddleware(Starlette(), ["https://a.example"], expose_headers=["Retry-After"]),
    )
    asked = [(b"x-request-id", b"mine"), (b"origin", b"https://a.example")]
    answer = gate.reject(scope_of("POST", path, asked), closes=closes)
    assert answer is not None
    assert gate.reject(scope_of("GET", "/health/live")) is None
    elsewhere = gate.reject(scope_of("POST", path, [(b"origin", b"https://b.example")]))
    assert b"access-control" not in (elsewhere or b"access-control")
    head, _, body = answer.partition(b"\r\n\r\n")
    lines = head.split(b"\r\n")
    assert lines[0] == b"HTTP/1.1 503 Service Unavailable"
    assert {b"x-request-id: mine", b"retry-after: 3", b"cache-control: no-store"} <= set(lines)
    assert b"x-content-type-options: nosniff" in lines
    assert b"access-control-allow-origin: https://a.example" in lines
    assert (b"connection: close" in lines) is closes
    assert f"content-length: {len(body)}".encode() in lines
    problem = json.loads(body)
    repeated = "full." if path == "/hf" else None
    assert (problem["type"], problem["detail"]) == ("/problems/overloaded", "full.")
    assert problem.get("error") == repeated
    other = OverloadedError("full.", refusal=Refusal.CONNECTIONS)
    body = gate.answer(other, scope_of("POST", path), closes=True).partition(b"\r\n\r\n")[2]
    assert json.loads(body).get("error") == repeated


V1_NO_LIMIT = "9223372036854771712"


def write_v2(folder: Path, limit: str, used: int, cache: int = 0) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "memory.max").write_text(f"{limit}\n")
    (folder / "memory.current").write_text(f"{used}\n")
    (folder / "memory.stat").write_text(f"anon 7\nactive_file 9\ninactive_file {cache}\nslab 3\n")


def write_v1(folder: Path, limit: str, used: int, cache: int = 0) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "memory.limit_in_bytes").write_text(f"{limit}\n")
    (folder / "memory.usage_in_bytes").write_text(f"{used}\n")
    (folder / "memory.stat").write_text(f"cache 9\ninactive_file 1\ntotal_inactive_file {cache}\n")


def watch(
    root: Path, own: str | None = None, clock: Callable[[], float] = lambda: 100.0
) -> MemoryWatch:
    """Watches the groups in a folder; without `own` those that its file names, if there is one."""
    if own is not None:
        (root / "own").write_text(own)
    with mock.patch.multiple(threads, _ROOT=root, _OWN=root / "own"):
        return MemoryWatch(clock=clock)


@pytest.mark.parametrize(
    ("own", "share"),
    [
        ("0::/app\n", 0.65),  # the cache of files does not count
        ("5:cpu:/app\n4:hugetlb,memory:/app\n", 0.55),
        ("0::/pod/app\n", 0.9),  # the fullest of all groups round the process
        ("0::/outside/of/it\n", 0.3),  # a container sees its own group at the root
        ("4:memory:/outside/of/it\n", 0.3),
    ],
)
def test_the_share_in_use(tmp_path: Path, own: str, share: float) -> None:
    for folder, limit, used in (("app", "1000", 950), ("pod/app", "1000", 400), (".", "1000", 600)):
        write_v2(tmp_path / folder, limit, used, cache=300)
    write_v2(tmp_path / "pod", "2000", used=1800)
    write_v1(tmp_path / "memory/app", "1000", used=850, cache=300)
    write_v1(tmp_path / "memory", "1000", used=300)
    assert watch(tmp_path, own).share == share


def test_without_a_limit_nothing_is_refused(tmp_path: Path) -> None:
    write_v2(tmp_path / "app", "max", used=10**15)
    write_v1(tmp_path / "memory/app", V1_NO_LIMIT, used=10**15)
    for own in ("0::/app\n4:memory:/app\n", "0::/\n", ""):
        watching = watch(tmp_path, own)
        assert watching.share == 0
        watching.check(LARGE_SHARE)
    assert watch(tmp_path / "nothing").share == 0


def test_it_is_read_four_times_a_second_at_most(tmp_path: Path) -> None:
    now = 100.0
    write_v2(tmp_path / "app", "1000", used=100)
    watching = watch(tmp_path, "0::/app\n", lambda: now)
    seen = [watching.share]
    write_v2(tmp_path / "app", "1000", used=900)
    for now in (100.125, 100.25, 100.375, 100.5):  # noqa: B007 - the clock
        seen.append(watching.share)
    assert seen == [0.1, 0.1, 0.9, 0.9, 0.9]


def test_what_is_free_is_returned_before_anybody_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    now, least = 100.0, 800
    returned: list[float] = []

    def give_back() -> None:
        returned.append(now)
        write_v2(tmp_path / "app", "1000", used=least)

    monkeypatch.setattr(access, "return_memory", give_back)
    write_v2(tmp_path / "app", "1000", used=900)
    watching = watch(tmp_path, "0::/app\n", lambda: now)
    seen = [watching.share]
    for now, least in ((101.0, 800), (105.0, 970), (111.0, 970)):  # noqa: B007 - the clock
        write_v2(tmp_path / "app", "1000", used=960)
        seen.append(watching.share)
    assert seen == [0.9, 0.8, 0.96, 0.97]
    assert returned == [101.0, 111.0]


def test_a_group_that_is_gone_refuses_nothing(tmp_path: Path) -> None:
    write_v2(tmp_path / "app", "1000", used=999)
    watching = watch(tmp_path, "0::/app\n")
    (tmp_path / "app/memory.stat").unlink()
    assert watching.share == 0
