"""Decides who may come in: by API key, by the name that was asked, by the page that asks (CORS)."""

import hashlib
import hmac
import re
from collections.abc import Collection, Hashable, Iterable, Sequence

from starlette.datastructures import MutableHeaders
from starlette.middleware.cors import CORSMiddleware
from starlette.types import ASGIApp, Receive, Scope, Send

from service.errors import MisdirectedError
from service.settings import Settings, SettingsError, name_of

# Below it stand the routes of health, which answer everybody.
_HEALTH_PREFIX = "/health/"
# Health by the names that other systems give it.
_HEALTH_ELSEWHERE = frozenset({"/health", "/ping", "/v2/health/live", "/v2/health/ready"})

Headers = Iterable[tuple[bytes, bytes]]

_VISIBLE = frozenset(chr(code) for code in range(0x21, 0x7F)) - {","}
_QUOTES = frozenset({b'"', b"'", b"`"})
# Where other services take a key; and how the header is spelt.
_OTHER_HEADERS = {b"x-api-key": "X-API-Key", b"api-key": "Api-Key"}
_PORT = re.compile(r":[0-9]*$")


class ApiKeys:
    """Checks API keys in constant time; holds only their digests.

    Args:
        keys: each of visible ASCII characters without commas.
    """

    def __init__(self, keys: frozenset[str]) -> None:
        self._digests = [hashlib.sha256(key.encode()).digest() for key in sorted(keys)]

    def __bool__(self) -> bool:
        """Whether any key is set; without keys everybody may come in."""
        return bool(self._digests)

    def admits(self, authorization: bytes | None) -> bool:
        """Whether a request may come in.

        Args:
            authorization: value of the header, `Bearer KEY`; None if it was not sent.
        """
        return not self._digests or self.find(authorization) is not None

    def find(self, authorization: bytes | None) -> bytes | None:
        """Finds the key of a request.

        Args:
            authorization: value of the header, `Bearer KEY`; None if it was not sent.

        Returns:
            The digest of the key; None if no key is right.
        """
        scheme, _, key = (authorization or b"").partition(b" ")
        digest = hashlib.sha256(key.strip(b" ")).digest()
        # Every key is compared, so that the time does not show which one was near.
        matches = [hmac.compare_digest(digest, known) for known in self._digests]
        return digest if any(matches) and scheme.lower() == b"bearer" else None


def explain_refusal(headers: Headers) -> str:
    """Tells whoever has no right key what to send, without a word of what was sent.

    Args:
        headers: of the request, names in lower case.
    """
    sent = list(headers)
    given = [value for name, value in sent if name == b"authorization"]
    if not given:
        names = {name for name, _ in sent}
        other = next((shown for name, shown in _OTHER_HEADERS.items() if name in names), None)
        beside = "" if other is None else f", not in {other}"
        return f"This service needs an API key: send it as Authorization: Bearer KEY{beside}."
    if len(given) > 1:
        return f"Authorization is given {len(given)} times: send it once, as Bearer KEY."
    scheme, _, rest = given[0].partition(b" ")
    key = rest.strip(b" ")
    if scheme.lower() != b"bearer":
        return (
            "Authorization must be the word Bearer, a space and the key: this is another scheme, "
            "or a key alone."
        )
    if not key:
        return "Authorization has no key behind the word Bearer: send it as Bearer KEY."
    if key[:1] in _QUOTES or key[-1:] in _QUOTES:
        return "The API key stands in quotation marks: send it without them, as Bearer KEY."
    if not set(key.decode("latin-1")) <= _VISIBLE:
        return (
            "The API key holds a space, a comma or a character that is not ASCII, which no key "
            "does: send one key, as Bearer KEY."
        )
    return (
        "The API key is wrong: it is none of this service's keys. Check it, or ask whoever runs "
        "the service for one."
    )


def challenge(headers: Headers) -> str:
    """The header `WWW-Authenticate` of a refusal (RFC 6750, section 3).

    Args:
        headers: of the request, names in lower case.
    """
    given = authorization(headers)
    is_wrong = given is not None and given[:7].lower() == b"bearer " and given[7:].strip(b" ")
    return 'Bearer error="invalid_token"' if is_wrong else "Bearer"


def client_of(
    keys: ApiKeys, peer: tuple[str, int] | None, headers: Headers, *, by_address: bool = False
) -> Hashable:
    """Tells clients apart: by key, else by address, else by connection.

    Args:
        keys: that are set.
        peer: address and port, as `scope["client"]` holds them. With port 0, a trusted proxy told
            the address.
        headers: of the request, names in lower case.
        by_address: whether all connections of an address are one client.

    Returns:
        The same value for all requests of a client. Without a right key, that is the address that
        a trusted proxy told; else the connection.
    """
    if keys and (key := keys.find(authorization(headers))) is not None:
        return key
    return peer[0] if peer is not None and by_address else peer


def authorization(headers: Headers) -> bytes | None:
    """The header `Authorization` of a request that has one, and only one."""
    given = [value for name, value in headers if name == b"authorization"]
    return given[0] if len(given) == 1 else None


def load_api_keys(settings: Settings, options: Collection[str] = ()) -> ApiKeys:
    """Reads the keys of both settings.

    Args:
        settings: their `api_keys` and `api_keys_file`.
        options: the settings that were given on the command line.

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
        faults.append(f"{name}: is set but holds no key; unset it to let everybody in")
    for number, key in enumerate(found, start=1):
        if set(key) <= _VISIBLE:
            keys.add(key)
        else:
            faults.append(
                f"{name}: key number {number} holds a character that is not visible ASCII, "
                "or a comma"
            )


def is_health(path: str) -> bool:
    """Whether a path is one of health, which answers everybody at any time."""
    return path.startswith(_HEALTH_PREFIX) or path in _HEALTH_ELSEWHERE


class AllowedHosts:
    """Refuses requests for names that are not the service's own; health answers to any name.

    A stranger's page can point a name of its own at a service in the user's network (DNS
    rebinding), and the browser then asks it as the page's own server. An operator who names the
    hosts prevents this.

    Args:
        app: the next ASGI app.
        hosts: names in lower case, without ports; `*.example.org` stands for all names under it.
    """

    def __init__(self, app: ASGIApp, *, hosts: Sequence[str]) -> None:
        self._app = app
        self._names = frozenset(host for host in hosts if not host.startswith("*."))
        self._endings = tuple(host[1:] for host in hosts if host.startswith("*."))

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Passes one request on.

        Raises:
            MisdirectedError: the header `Host` names another service.
        """
        if scope["type"] == "http" and not is_health(scope["path"]):
            given = [value for name, value in scope["headers"] if name == b"host"]
            host = given[0].decode("latin-1").lower() if len(given) == 1 else ""
            if not self._is_meant(_PORT.sub("", host)):
                raise MisdirectedError(
                    "This service does not answer under the name in the header Host: ask it by "
                    "one of its own names."
                )
        await self._app(scope, receive, send)

    def _is_meant(self, host: str) -> bool:
        return bool(host) and (host in self._names or host.endswith(self._endings))


def cors_headers(
    cors: CORSMiddleware, headers: Iterable[tuple[bytes, bytes]]
) -> list[tuple[bytes, bytes]]:
    """Tells a browser that a page may read an answer that does not pass through the middleware.

    Args:
        cors: the origins that may read, and what they may read.
        headers: of the request, names in lower case.

    Returns:
        Headers of the answer; none if no page asks, or one that may not read it.
    """
    origin = next((value.decode("latin-1") for name, value in headers if name == b"origin"), None)
    added = MutableHeaders()
    if origin is not None and cors.is_allowed_origin(origin):
        added.update(cors.simple_headers)
        if not cors.allow_all_origins:
            cors.allow_explicit_origin(added, origin)
    return added.raw
