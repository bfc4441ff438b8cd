"""Decides who may come in: by API key, by the name that was asked, by the page that asks (CORS)."""

import hashlib
import hmac
import re
from collections.abc import Hashable, Iterable, Sequence

from starlette.datastructures import MutableHeaders
from starlette.middleware.cors import CORSMiddleware
from starlette.types import ASGIApp, Receive, Scope, Send

from service.errors import MisdirectedError
from service.settings import PREFIX, Settings, SettingsError

# Below it stand the routes of health, which answer everybody.
HEALTH_PREFIX = "/health/"

Headers = Iterable[tuple[bytes, bytes]]

_VISIBLE = frozenset(chr(code) for code in range(0x21, 0x7F)) - {","}
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


def load_api_keys(settings: Settings) -> ApiKeys:
    """Reads the keys of both settings.

    Args:
        settings: their `api_keys` and `api_keys_file`.

    Raises:
        SettingsError: the file cannot be read, a source holds no key, or a key holds a character
            that cannot be sent. No key is shown.
    """
    keys: set[str] = set()
    faults: list[str] = []
    if settings.api_keys is not None:
        given = settings.api_keys.get_secret_value().split(",")
        _take(given, f"{PREFIX}API_KEYS", keys, faults)
    if settings.api_keys_file is not None:
        name = f"{PREFIX}API_KEYS_FILE"
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
        if scope["type"] == "http" and not scope["path"].startswith(HEALTH_PREFIX):
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
