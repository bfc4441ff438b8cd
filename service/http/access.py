"""Checks what says who a client is: API keys, hosts and the addresses that proxies forward."""

import ipaddress
import re
from collections.abc import Collection, Sequence

from starlette.types import ASGIApp, Receive, Scope, Send
from uvicorn.middleware.proxy_headers import ProxyHeadersMiddleware

from service.errors import MisdirectedError
from service.http.gate import Address, ApiKeys, authorization
from service.http.middleware import Headers, is_health
from service.settings import Settings, SettingsError, name_of

_EXPECTED = "`Authorization: Bearer <key>`"
_VISIBLE = frozenset(chr(code) for code in range(0x21, 0x7F)) - {","}
_QUOTES = frozenset({b'"', b"'", b"`"})
# Where other services take a key; and how the header is spelt.
_OTHER_HEADERS = {b"x-api-key": "X-API-Key", b"api-key": "Api-Key"}
_PORT = re.compile(r":[0-9]*$")
_FORWARDED = b"x-forwarded-for"
# No connection has it, so it marks an address that a proxy forwarded.
_NO_PORT = 0
_LONGEST_FORWARDED = 4096
# What a `*` in the name of a host stands for.
_SUBDOMAIN = re.compile(r"[a-z0-9_-]+(?:\.[a-z0-9_-]+)*")


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


def load_api_keys(settings: Settings, options: Collection[str] = ()) -> ApiKeys:
    """Reads the keys of `api_keys` and `api_keys_file`; `options` came on the command line.

    Raises:
        SettingsError: the file cannot be read, a source holds no key, or a key holds a character
            that cannot be sent. No key is shown.
    """
    keys: set[str] = set()
    errors: list[str] = []
    if settings.api_keys is not None:
        given = settings.api_keys.get_secret_value().split(",")
        _take(given, name_of("api_keys"), keys, errors)
    if settings.api_keys_file is not None:
        name = name_of("api_keys_file", options)
        try:
            lines = settings.api_keys_file.read_text(encoding="utf-8").splitlines()
        except (OSError, UnicodeDecodeError) as error:
            reason = error.strerror if isinstance(error, OSError) else "is not UTF-8"
            errors.append(f"{name}: cannot read {settings.api_keys_file}: {reason}")
        else:
            _take(lines, name, keys, errors)
    if errors:
        raise SettingsError(errors)
    return ApiKeys(frozenset(keys))


def _take(given: list[str], name: str, keys: set[str], errors: list[str]) -> None:
    found = [key.strip() for key in given if key.strip()]
    if not found:
        errors.append(f"{name}: is set but holds no key: unset it to let anyone in")
    for number, key in enumerate(found, start=1):
        if set(key) <= _VISIBLE:
            keys.add(key)
        else:
            errors.append(
                f"{name}: key number {number} holds a character that is not visible ASCII, "
                "or a comma"
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
