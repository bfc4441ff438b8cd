"""Decides who may come in: by API key, host, forwarded address, rate, room and memory.

- The rate is a token bucket, as in RFC 2697: it fills at a constant rate, and each request takes
  from it. Each replica counts for itself. What is left goes with answers, as in
  draft-ietf-httpapi-ratelimit-headers-11.
- One thread reads all requests and sends all answers. In a flood it would spend its time on those
  that it refuses. So `Gate` refuses by the head, without a line in the log.
- Sources for memory: the kernel's admin-guide/cgroup-v2.rst and cgroup-v1/memory.rst.
"""

import hashlib
import hmac
import ipaddress
import math
import re
import time
from collections.abc import Callable, Collection, Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache, partial
from http import HTTPStatus
from pathlib import Path

from starlette.datastructures import MutableHeaders
from starlette.middleware.cors import CORSMiddleware
from starlette.types import ASGIApp, Receive, Scope, Send
from uvicorn.middleware.proxy_headers import ProxyHeadersMiddleware

from model.backends.threads import group_folders
from model.cli.process import return_memory
from service.errors import (
    MisdirectedError,
    OverloadedError,
    RateLimitedError,
    Refusal,
    UnauthorizedError,
    without_frames,
)
from service.http.middleware import (
    CLIENT_NAME,
    REQUEST_ID,
    RESPONSE_HEADERS,
    Headers,
    Lifecycle,
    is_health,
    request_id,
)
from service.metrics import UNMATCHED, Metrics
from service.settings import Rate, Settings, SettingsError, name_of

Address = tuple[str, int]

_EXPECTED = "`Authorization: Bearer <key>`"
# Visible ASCII without the comma. In a line of the file a name and a colon may stand before it.
_VISIBLE = r"[!-+\--~]+"
_KEY = re.compile(rf"(?P<name>)(?P<key>{_VISIBLE})")
_LINE = re.compile(rf"(?:(?P<name>[A-Za-z0-9._-]{{1,64}})\s*:\s*|(?!.*:))(?P<key>{_VISIBLE})")
_QUOTES = frozenset({b'"', b"'", b"`"})
# Where other services take a key; and how the header is spelt.
_OTHER_HEADERS = {b"x-api-key": "X-API-Key", b"api-key": "Api-Key"}
_PORT = re.compile(r":[0-9]*$")
_FORWARDED = b"x-forwarded-for"
# Where the scope of a request holds its client.
_CLIENT_KEY = "headlight.client"
# In the scope of a request that the gate let in.
_LET_IN = "headlight.let_in"
# No connection has it, so it marks an address that a proxy forwarded.
_NO_PORT = 0
_LONGEST_FORWARDED = 4096
# Addresses of IPv6 whose networks are remembered.
_MOST_NETWORKS = 4096
# Clients whose use is counted: those not seen for longest start again with a full bucket.
_MOST_CLIENTS = 10_000
# Headers of bodies whose length says nothing of what they hold.
_OF_UNKNOWN_SIZE = frozenset({b"transfer-encoding", b"content-encoding"})

# Above the first, requests with large answers or bodies are refused; above the second, all that
# compute. Health is always answered.
LARGE_SHARE = 0.90
ANY_SHARE = 0.95
# Bodies up to this size are small.
_SMALL_BODY = 65_536

_SAMPLE_SECONDS = 0.25
# To return memory takes up to a tenth of a second.
_RETURN_SECONDS = 10.0
_RETRY_SECONDS = 2.0
# Of versions 2 and 1: the limit, the usage, and what of it the kernel can drop.
_FILES = (
    ("memory.max", "memory.current", "inactive_file"),
    ("memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file"),
)
# Version 1 has a number like this for "no limit".
_NO_LIMIT = 2**60
# What a `*` in the name of a host stands for.
_SUBDOMAIN = re.compile(r"[a-z0-9_-]+(?:\.[a-z0-9_-]+)*")


class ApiKeys:
    """Checks API keys in constant time; holds only their digests, each with its name or None."""

    def __init__(self, keys: Mapping[str, str | None]) -> None:
        self.names = {hashlib.sha256(key.encode()).digest(): keys[key] for key in sorted(keys)}

    def __bool__(self) -> bool:
        """Whether any key is set; without keys anyone may come in."""
        return bool(self.names)

    def find(self, authorization: bytes | None) -> bytes | None:
        """Returns the digest of the valid key in a header `Authorization`, or None."""
        scheme, _, key = (authorization or b"").partition(b" ")
        digest = hashlib.sha256(key.strip(b" ")).digest()
        # Every key is compared, so that the time does not show which one was near.
        matches = [hmac.compare_digest(digest, known) for known in self.names]
        return digest if any(matches) and scheme.lower() == b"bearer" else None


def client_of(keys: ApiKeys, scope: Scope) -> bytes | Address | None:
    """Returns an id for the client: the digest of its API key, else its address and port.

    The port is 0 if a trusted proxy forwarded the address. Of IPv6 it is the network of 64 bits: a
    client has all addresses of it (RFC 6177). From then on the scope of the request holds the id,
    and the name of the key.
    """
    if _CLIENT_KEY not in scope:
        peer = scope["client"]
        if peer is not None and ":" in peer[0]:
            peer = _network_of(peer[0]), peer[1]
        key = keys.find(authorization(scope["headers"])) if keys else None
        scope[_CLIENT_KEY] = peer if key is None else key
        scope[CLIENT_NAME] = None if key is None else keys.names[key]
    client: bytes | Address | None = scope[_CLIENT_KEY]
    return client


def require_client(keys: ApiKeys, scope: Scope) -> bytes | Address | None:
    """Returns the id of a client; raises UnauthorizedError if it needs a key and has none."""
    client = client_of(keys, scope)
    if keys and not isinstance(client, bytes):
        raise unauthorized(scope["headers"])
    return client


@lru_cache(_MOST_NETWORKS)
def _network_of(host: str) -> str:
    address = ipaddress.IPv6Address(host.partition("%")[0])
    if address.ipv4_mapped is not None:
        return str(address.ipv4_mapped)
    return str(ipaddress.IPv6Network((address, 64), strict=False).network_address)


def authorization(headers: Headers) -> bytes | None:
    """Returns the header `Authorization` of a request that has exactly one."""
    given = [value for name, value in headers if name == b"authorization"]
    return given[0] if len(given) == 1 else None


def unauthorized(headers: Headers) -> UnauthorizedError:
    """Returns the error of a request without a valid key, which says how to send one.

    The header `WWW-Authenticate` is that of RFC 6750, section 3.
    """
    given = [value for name, value in headers if name == b"authorization"]
    scheme, _, rest = (given[0] if given else b"").partition(b" ")
    key, is_bearer = rest.strip(b" "), scheme.lower() == b"bearer"
    if not given:
        names = {name for name, _ in headers}
        other = next((shown for name, shown in _OTHER_HEADERS.items() if name in names), None)
        beside = "" if other is None else f", not in {other}"
        detail = f"This service needs an API key: send {_EXPECTED}{beside}."
    elif len(given) > 1:
        detail = f"Authorization is given {len(given)} times: expected one {_EXPECTED}."
    elif not (is_bearer and key):
        detail = f"Authorization has another scheme, or no key: expected {_EXPECTED}."
    elif key[:1] in _QUOTES or key[-1:] in _QUOTES:
        detail = f"The API key is in quotation marks: expected {_EXPECTED}."
    elif not _KEY.fullmatch(key.decode("latin-1")):
        detail = (
            "The API key has a space, a comma or a character that is not ASCII, which no key has: "
            f"expected {_EXPECTED}."
        )
    else:
        detail = (
            "The API key is not valid here: check it, or ask the operator of the service for one."
        )
    is_wrong = len(given) == 1 and is_bearer and key
    challenge = 'Bearer error="invalid_token"' if is_wrong else "Bearer"
    return UnauthorizedError(detail, headers={"WWW-Authenticate": challenge})


def load_api_keys(settings: Settings, options: Collection[str] = ()) -> ApiKeys:
    """Reads the keys of `api_keys` and `api_keys_file`; `options` came on the command line.

    Raises:
        SettingsError: the file cannot be read, a source holds no key, a key holds a character that
            cannot be sent, or a name is wrong. No key is shown.
    """
    keys: dict[str, str | None] = {}
    errors: list[str] = []
    if settings.api_keys is not None:
        given = settings.api_keys.get_secret_value().split(",")
        errors += _take(given, _KEY, f"{name_of('api_keys')}: key number", keys)
    if settings.api_keys_file is not None:
        name = name_of("api_keys_file", options)
        try:
            lines = settings.api_keys_file.read_text(encoding="utf-8-sig").split("\n")
        except (OSError, UnicodeDecodeError) as error:
            reason = error.strerror if isinstance(error, OSError) else "is not UTF-8"
            errors.append(f"{name}: cannot read {settings.api_keys_file}: {reason}")
        else:
            errors += _take(lines, _LINE, f"{name}: line", keys)
    if errors:
        raise SettingsError(errors)
    return ApiKeys(keys)


def _take(
    given: list[str], form: re.Pattern[str], where: str, keys: dict[str, str | None]
) -> Iterator[str]:
    """Adds keys of a form, each with its name; yields what is wrong with others."""
    if not any(part.strip() for part in given):
        yield f"{where.partition(':')[0]}: is set but holds no key: unset it to let anyone in"
    for number, part in enumerate(map(str.strip, given), start=1):
        found = form.fullmatch(part)
        if found is not None:
            key, name = found["key"], found["name"] or keys.get(found["key"])
            if keys.get(key) not in (None, name):
                yield f"{where} {number} gives another name to the key of an earlier line"
            keys[key] = name
        elif part and form is _KEY:
            yield f"{where} {number} holds a character that is not visible ASCII, or a comma"
        elif part:
            yield (
                f"{where} {number} is neither KEY nor NAME:KEY: a key is visible ASCII without "
                "commas, a name 1 to 64 of A-Z a-z 0-9 . _ -; a key with a colon needs a name"
            )


class AllowedHosts:
    """Refuses requests for other hosts than the service's own, except those for health.

    A foreign page can point its own name at a service in the user's network (DNS rebinding).
    The names are in lower case, without ports; `*.example.org` stands for all names under it.
    """

    def __init__(self, app: ASGIApp, *, hosts: Sequence[str]) -> None:
        self._app = app
        self._names = frozenset(host for host in hosts if not host.startswith("*."))
        self._endings = tuple(host[1:] for host in hosts if host.startswith("*."))

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Passes one request on; raises MisdirectedError if its `Host` names another service."""
        if scope["type"] == "http" and not is_health(scope["path"]):
            given = [value for name, value in scope["headers"] if name == b"host"]
            host = given[0].decode("latin-1").lower() if len(given) == 1 else ""
            host = _PORT.sub("", host)
            if host not in self._names and not any(
                host.endswith(ending) and _SUBDOMAIN.fullmatch(host.removesuffix(ending))
                for ending in self._endings
            ):
                raise MisdirectedError(
                    "The header Host names another service: use one of this service's own names."
                )
        await self._app(scope, receive, send)


class TrustedProxies:
    """Takes a client's address from `X-Forwarded-For` if a proxy of these networks sent it.

    uvicorn's own middleware runs after the gate, and takes any text for an address. `*` trusts all.
    """

    def __init__(self, networks: Sequence[str]) -> None:
        self._trusted = ProxyHeadersMiddleware(_no_app, list(networks)).trusted_hosts

    def client_of(self, peer: Address | None, headers: Headers) -> Address | None:
        """Returns the address that a trusted proxy forwarded, with port 0; else the peer.

        Of several addresses, it is the last that is no trusted proxy itself.
        """
        # A socket for both kinds of addresses shows those of IPv4 so.
        if peer is None or peer[0].removeprefix("::ffff:") not in self._trusted:
            return peer
        forwarded = b",".join(value for name, value in headers if name == _FORWARDED).decode(
            "latin-1"
        )
        # The last ones count; thousands would keep the event loop for long.
        forwarded = forwarded[-_LONGEST_FORWARDED:]
        host, _ = self._trusted.get_trusted_client_address(forwarded)
        try:
            return str(ipaddress.ip_address(host)), _NO_PORT
        except ValueError:
            return peer


async def _no_app(*_: object) -> None:
    """Stands in for an application: only the reading of addresses is used."""


class RateLimit:
    """Limits each client to a count in a period; `unit` names what is counted, in the plural."""

    def __init__(
        self,
        rate: Rate,
        unit: str,
        *,
        refusal: Refusal,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._rate, self._unit, self._refusal = rate, unit, refusal
        self._clock = clock
        # Of each client what was left, and when; the client seen last is last.
        self._buckets: dict[Hashable, tuple[float, float]] = {}

    def spend(self, client: Hashable, count: int = 1) -> None:
        """Takes from the bucket of a client; a count above the limit leaves a debt.

        Raises:
            RateLimitedError: too little is left, and nothing was taken; says when there is enough.
        """
        left, needed = self._left(client), min(count, self._rate.count)
        is_enough = left >= needed
        self._buckets.pop(client, None)
        self._buckets[client] = (left - count if is_enough else left, self._clock())
        if len(self._buckets) > _MOST_CLIENTS:
            del self._buckets[next(iter(self._buckets))]
        if not is_enough:
            raise RateLimitedError(
                f"{count} {self._unit} are wanted and {max(int(left), 0)} are left; the "
                f"limit is {self._rate}: wait, or ask the operator of the service for more.",
                refusal=self._refusal,
                retry_after=(needed - left) / self._rate.count * self._rate.seconds,
            )

    def items(self, client: Hashable) -> tuple[str, str]:
        """Returns the items of `RateLimit-Policy` and `RateLimit` for a client."""
        rate, left = self._rate, self._left(client)
        whole = max(int(left), 0)
        # Within this time no more than that can be used.
        seconds = math.ceil((whole + 1 - left) / rate.count * rate.seconds)
        unit = "" if self._unit == "requests" else f';qu="{self._unit}"'
        policy = f'"{self._unit}";q={rate.count};w={rate.seconds}{unit}'
        return policy, f'"{self._unit}";r={whole};t={seconds}'

    def _left(self, client: Hashable) -> float:
        most, now = self._rate.count, self._clock()
        left, seen = self._buckets.get(client, (most, now))
        return min(most, left + (now - seen) * most / self._rate.seconds)


class MemoryWatch:
    """Refuses requests while the memory is nearly full; without a limit it refuses none."""

    def __init__(self, *, clock: Callable[[], float] = time.monotonic) -> None:
        folders = group_folders("memory")
        self._groups = [group for folder in folders for group in _groups_in(folder)]
        self._clock = clock
        self._next = self._next_return = clock()
        self._share = 0.0

    @property
    def share(self) -> float:
        """The part of the memory in use, from 0 to 1, at most a quarter of a second old."""
        now = self._clock()
        if self._groups and now >= self._next:
            self._next = now + _SAMPLE_SECONDS
            self._share = max(share() for share in self._groups)
            if self._share > LARGE_SHARE and now >= self._next_return:
                self._next_return = now + _RETURN_SECONDS
                return_memory()  # what the process has freed counts as used until then
                self._share = max(share() for share in self._groups)
        return self._share

    def check(self, most: float) -> None:
        """Raises OverloadedError if a larger share of the memory than `most` is in use."""
        if self.share <= most:
            return
        kind = "no request that computes" if most >= ANY_SHARE else "no large request"
        raise OverloadedError(
            f"{self._share:.0%} of the memory is in use, and above {most:.0%} the service takes "
            f"{kind}: try again later, or ask another replica.",
            refusal=Refusal.MEMORY,
            retry_after=_RETRY_SECONDS,
        )


def _groups_in(folder: Path) -> Iterator[Callable[[], float]]:
    """Yields what returns the share in use, for each control group of a folder with a limit."""
    for limit, usage, cache in _FILES:
        try:
            most = int((folder / limit).read_text("ascii"))
        except (OSError, ValueError):  # there is no such group, or its limit is "max"
            continue
        if 0 < most < _NO_LIMIT:
            yield partial(_share_of, folder, usage, cache, most)


def _share_of(folder: Path, usage: str, cache: str, most: int) -> float:
    """Returns the part of the limit that is in use; 0 if the files are gone."""
    try:
        used = int((folder / usage).read_text("ascii"))
        words = (folder / "memory.stat").read_text("ascii").split()
        droppable = int(words[words.index(cache) + 1])
    except (OSError, ValueError, IndexError):
        return 0.0
    return (used - droppable) / most


@dataclass(frozen=True, slots=True)
class Gate:
    """Refuses requests that would wait for the network.

    Args:
        check_room: raises OverloadedError if a client's request to a route, with so many seconds in
            all, would be refused once it is read.
        lifecycle: while the process drains, the gate stays open, because its answers cannot say so.
        memory: if it is nearly full, large bodies are refused before other requests.
        routes: methods and paths that wait for the network, each with the path of its route.
        with_error: those whose problems repeat their detail as `error`.
        cors: lets other origins read the answers; None if no origin is allowed.
    """

    check_room: Callable[[Hashable, str, float], None]
    lifecycle: Lifecycle
    metrics: Metrics
    memory: MemoryWatch
    api_keys: ApiKeys
    routes: Mapping[tuple[str, str], str]
    seconds: float
    with_error: Collection[tuple[str, str]] = ()
    cors: CORSMiddleware | None = None

    def check(self, scope: Scope, route: str) -> None:
        """Lets a request to a route in, once; raises OverloadedError.

        However a path is spelled, and wherever a request waited, no route computes before this.
        """
        if self.lifecycle.draining or _LET_IN in scope:
            return
        if self.memory.share > LARGE_SHARE:
            # A body may not say how large it is; unpacked, it may be larger.
            is_large = any(
                name in _OF_UNKNOWN_SIZE or (name == b"content-length" and int(value) > _SMALL_BODY)
                for name, value in scope["headers"]
            )
            self.memory.check(LARGE_SHARE if is_large else ANY_SHARE)
        self.check_room(client_of(self.api_keys, scope), route, self.seconds)
        scope[_LET_IN] = True

    def reject(self, scope: Scope, *, closes: bool = False) -> bytes | None:
        """Returns the whole answer if a request is refused by its head; None if it may come in.

        If the connection closes after the answer, that says so.
        """
        route = self.routes.get((scope["method"], scope["path"]))
        if route is None:
            return None
        try:
            self.check(scope, route)
        except OverloadedError as error:
            return self.answer(without_frames(error), scope, closes=closes, route=route)
        return None

    def answer(
        self, error: OverloadedError, scope: Scope, *, closes: bool, route: str = UNMATCHED
    ) -> bytes:
        """Counts a refused request, and returns the whole answer."""
        method, headers = scope["method"], scope["headers"]
        known = UNMATCHED if route == UNMATCHED else method
        self.metrics.count_request(route, known, error.status, scope.get(CLIENT_NAME))
        self.metrics.count_problem(error)
        head, content = _write(error, (method, scope["path"]) in self.with_error)
        own = [(REQUEST_ID.lower().encode("ascii"), request_id(headers).encode("ascii"))]
        if self.cors is not None:
            own += cors_headers(self.cors, headers)
        if closes:
            own.append((b"connection", b"close"))
        lines = [b"%s: %s" % header for header in own]
        return b"\r\n".join([head, *lines, b"", content])


@lru_cache(4)  # the error is the same for all requests that are refused within a moment
def _write(error: OverloadedError, repeats: bool) -> tuple[bytes, bytes]:
    """Returns the part of an answer's head that all requests share, and the body."""
    response = error.response(with_error=repeats)
    lines = [b"HTTP/1.1 %d %s" % (error.status, HTTPStatus(error.status).phrase.encode("ascii"))]
    lines += [b"%s: %s" % header for header in (*response.raw_headers, *RESPONSE_HEADERS)]
    return b"\r\n".join(lines), bytes(response.body)


def cors_headers(cors: CORSMiddleware, headers: Headers) -> list[tuple[bytes, bytes]]:
    """Returns CORS headers for an answer that does not pass through the middleware."""
    origin = next((value.decode("latin-1") for name, value in headers if name == b"origin"), None)
    added = MutableHeaders()
    if origin is not None and cors.is_allowed_origin(origin):
        added.update(cors.simple_headers)
        if not cors.allow_all_origins:
            cors.allow_explicit_origin(added, origin)
    return added.raw
