"""Decides who may come in and who a client is: API keys, hosts, trusted proxies, origins (CORS)."""

import hashlib
import hmac
import ipaddress
import re
from collections.abc import Collection, Iterable, Sequence
from functools import lru_cache

from starlette.datastructures import MutableHeaders
from starlette.middleware.cors import CORSMiddleware
from starlette.types import ASGIApp, Receive, Scope, Send
from uvicorn.middleware.proxy_headers import ProxyHeadersMiddleware

from service.errors import MisdirectedError
from service.settings import Settings, SettingsError, name_of

# Paths of health, which anyone may ask.
_HEALTH_PREFIX = "/health/"
# The same by the names of other systems.
_HEALTH_ELSEWHERE = frozenset({"/health", "/ping", "/v2/health/live", "/v2/health/ready"})

Headers = Iterable[tuple[bytes, bytes]]
Address = tuple[str, int]

_EXPECTED = "`Authorization: Bearer <key>`"
_VISIBLE = frozenset(chr(code) for code in range(0x21, 0x7F)) - {","}
_QUOTES = frozenset({b'"', b"'", b"`"})
# Where other services take a key; and how the header is spelt.
_OTHER_HEADERS = {b"x-api-key": "X-API-Key", b"api-key": "Api-Key"}
_PORT = re.compile(r":[0-9]*$")
_FORWARDED = b"x-forwarded-for"
# No connection has it, so it marks an address that a proxy forwarded.
_NO_PORT = 0
_MOST_REMEMBERED = 4096
# What a `*` in the name of a host stands for.
_SUBDOMAIN = re.compile(r"[a-z0-9_-]+(?:\.[a-z0-9_-]+)*")


class ApiKeys:
    """Checks API keys in constant time; holds only their digests."""

    def __init__(self, keys: frozenset[str]) -> None:
        self._digests = [hashlib.sha256(key.encode()).digest() for key in sorted(keys)]

    def __bool__(self) -> bool:
        """Whether any key is set; without keys anyone may come in."""
        return bool(self._digests)

    def admits(self, authorization: bytes | None) -> bool:
        """Whether a request with this header `Authorization`, or None, may come in."""
        return not self._digests or self.find(authorization) is not None

    def find(self, authorization: bytes | None) -> bytes | None:
        """Returns the digest of the valid key in a header `Authorization`, or None."""
        scheme, _, key = (authorization or b"").partition(b" ")
        digest = hashlib.sha256(key.strip(b" ")).digest()
        # Every key is compared, so that the time does not show which one was near.
        matches = [hmac.compare_digest(digest, known) for known in self._digests]
        return digest if any(matches) and scheme.lower() == b"bearer" else None


def explain_rejection(headers: Headers) -> str:
    """Says how to send a key, by the headers of a request without a valid one."""
    sent = list(headers)
    given = [value for name, value in sent if name == b"authorization"]
    if not given:
        names = {name for name, _ in sent}
        other = next((shown for name, shown in _OTHER_HEADERS.items() if name in names), None)
        beside = "" if other is None else f", not in {other}"
        return f"This service needs an API key: send {_EXPECTED}{beside}."
    if len(given) > 1:
        return f"Authorization is given {len(given)} times: expected one {_EXPECTED}."
    scheme, _, rest = given[0].partition(b" ")
    key = rest.strip(b" ")
    if scheme.lower() != b"bearer":
        return f"Authorization has another scheme or none: expected {_EXPECTED}."
    if not key:
        return f"Authorization has no key: expected {_EXPECTED}."
    if key[:1] in _QUOTES or key[-1:] in _QUOTES:
        return f"The API key is in quotation marks: expected {_EXPECTED}."
    if not set(key.decode("latin-1")) <= _VISIBLE:
        return (
            "The API key has a space, a comma or a character that is not ASCII, which no key has: "
            f"expected {_EXPECTED}."
        )
    return "The API key is not valid here: check it, or ask the operator of the service for one."


def challenge(headers: Headers) -> str:
    """Returns `WWW-Authenticate` of a refusal (RFC 6750, section 3), from the request's headers."""
    given = authorization(headers)
    is_wrong = given is not None and given[:7].lower() == b"bearer " and given[7:].strip(b" ")
    return 'Bearer error="invalid_token"' if is_wrong else "Bearer"


def client_of(keys: ApiKeys, peer: Address | None, headers: Headers) -> bytes | Address | None:
    """Returns an id for the client: its API key, else its address, else its connection.

    Args:
        keys: the valid keys.
        peer: address and port of the connection; port 0 if a trusted proxy forwarded the address.
        headers: names in lower case.

    Returns:
        The digest of a valid key; else `peer`, of IPv6 its network of 64 bits: whoever has one
        address of it has all of them (RFC 6177).
    """
    key = keys.find(authorization(headers)) if keys else None
    if key is not None or peer is None or ":" not in peer[0]:
        return peer if key is None else key
    return _network_of(peer[0]), peer[1]


@lru_cache(_MOST_REMEMBERED)
def _network_of(host: str) -> str:
    address = ipaddress.IPv6Address(host.partition("%")[0])
    if address.ipv4_mapped is not None:
        return str(address.ipv4_mapped)
    return str(ipaddress.IPv6Network((address, 64), strict=False).network_address)


def authorization(headers: Headers) -> bytes | None:
    """Returns the header `Authorization` of a request that has exactly one."""
    given = [value for name, value in headers if name == b"authorization"]
    return given[0] if len(given) == 1 else None


def load_api_keys(settings: Settings, options: Collection[str] = ()) -> ApiKeys:
    """Reads the keys of `api_keys` and `api_keys_file`; `options` came on the command line.

    Raises:
        SettingsError: the file cannot be read, a source holds no key, or a key holds a character
            that cannot be sent. No key is shown.
    """
    keys: set[str] = set()
    faults: list[str] = []
    if settings.api_keys is not None:
        given = settings.api_keys.get_secret_value().split(",")
        _take(given, name_of("api_keys"), keys, faults)
    if settings.api_keys_file is not None:
        name = name_of("api_keys_file", options)
        try:
            lines = settings.api_keys_file.read_text(encoding="utf-8").splitlines()
        except (OSError, UnicodeDecodeError) as error:
            reason = error.strerror if isinstance(error, OSError) else "is not UTF-8"
            faults.append(f"{name}: cannot read {settings.api_keys_file}: {reason}")
        else:
            _take(lines, name, keys, faults)
    if faults:
        raise SettingsError(faults)
    return ApiKeys(frozenset(keys))


def _take(given: list[str], name: str, keys: set[str], faults: list[str]) -> None:
    found = [key.strip() for key in given if key.strip()]
    if not found:
        faults.append(f"{name}: is set but holds no key: unset it to let anyone in")
    for number, key in enumerate(found, start=1):
        if set(key) <= _VISIBLE:
            keys.add(key)
        else:
            faults.append(
                f"{name}: key number {number} holds a character that is not visible ASCII, "
                "or a comma"
            )


def is_health(path: str) -> bool:
    """Whether a path reports health, which anyone may ask at any time."""
    return path.startswith(_HEALTH_PREFIX) or path in _HEALTH_ELSEWHERE


class AllowedHosts:
    """Refuses requests for other hosts than the service's own, except those for health.

    A foreign page can point its own name at a service in the user's network (DNS rebinding).

    Args:
        app: the next ASGI app.
        hosts: names in lower case, without ports; `*.example.org` stands for all names under it.
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
            if not self._is_meant(_PORT.sub("", host)):
                raise MisdirectedError(
                    "The header Host names another service: use one of this service's own names."
                )
        await self._app(scope, receive, send)

    def _is_meant(self, host: str) -> bool:
        return host in self._names or any(
            host.endswith(ending) and _SUBDOMAIN.fullmatch(host.removesuffix(ending))
            for ending in self._endings
        )


def cors_headers(
    cors: CORSMiddleware, headers: Iterable[tuple[bytes, bytes]]
) -> list[tuple[bytes, bytes]]:
    """Returns CORS headers for an answer that does not pass through the middleware."""
    origin = next((value.decode("latin-1") for name, value in headers if name == b"origin"), None)
    added = MutableHeaders()
    if origin is not None and cors.is_allowed_origin(origin):
        added.update(cors.simple_headers)
        if not cors.allow_all_origins:
            cors.allow_explicit_origin(added, origin)
    return added.raw


class TrustedProxies:
    """Takes a client's address from `X-Forwarded-For` if a trusted proxy sent it.

    uvicorn's own middleware runs after the gate, and takes any text for an address.

    Args:
        networks: addresses and networks of proxies; only `*` trusts every sender.
    """

    def __init__(self, networks: Sequence[str]) -> None:
        self._trusted = ProxyHeadersMiddleware(_no_app, list(networks)).trusted_hosts

    def client_of(
        self, peer: tuple[str, int] | None, headers: Iterable[tuple[bytes, bytes]]
    ) -> tuple[str, int] | None:
        """Returns the address that a trusted proxy forwarded, with port 0; else the peer.

        Of several addresses, it is the last that is no trusted proxy itself.
        """
        # A socket for both kinds of addresses shows those of IPv4 so.
        if peer is None or peer[0].removeprefix("::ffff:") not in self._trusted:
            return peer
        forwarded = b",".join(value for name, value in headers if name == _FORWARDED).decode(
            "latin-1"
        )
        host, _ = self._trusted.get_trusted_client_address(forwarded)
        try:
            return str(ipaddress.ip_address(host)), _NO_PORT
        except ValueError:
            return peer


async def _no_app(*_: object) -> None:
    """Stands in for an application: only the reading of addresses is used."""
