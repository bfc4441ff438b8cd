"""Finds the address of a client behind a proxy that is trusted (`X-Forwarded-For`)."""

import ipaddress
from collections.abc import Iterable, Sequence

from starlette.types import Scope
from uvicorn.middleware.proxy_headers import ProxyHeadersMiddleware

_HEADER = b"x-forwarded-for"
# No connection has it, so it marks an address that a proxy told.
_NO_PORT = 0


class TrustedProxies:
    """Takes the address of a client from the header of a trusted proxy, and from nobody else's.

    The protocol asks it before the gate does its work, so that both the gate and the application
    see the same address. uvicorn's own middleware comes too late for that, and takes any text for
    an address.

    Args:
        networks: addresses and networks of proxies; `*` alone trusts every sender.
    """

    def __init__(self, networks: Sequence[str]) -> None:
        self._trusted = ProxyHeadersMiddleware(_no_app, list(networks)).trusted_hosts

    def client_of(
        self, peer: tuple[str, int] | None, headers: Iterable[tuple[bytes, bytes]]
    ) -> tuple[str, int] | None:
        """Returns the client of a request, as `scope["client"]` holds it.

        Args:
            peer: address and port of the other end of the connection.
            headers: of the request, names in lower case.

        Returns:
            The address that a trusted proxy tells, with port 0: of several, the last that is no
            trusted proxy itself. Else the peer.
        """
        # A socket for both kinds of addresses shows those of IPv4 so.
        if peer is None or peer[0].removeprefix("::ffff:") not in self._trusted:
            return peer
        told = b",".join(value for name, value in headers if name == _HEADER).decode("latin-1")
        host, _ = self._trusted.get_trusted_client_address(told)
        try:
            return str(ipaddress.ip_address(host)), _NO_PORT
        except ValueError:
            return peer


def is_forwarded(scope: Scope) -> bool:
    """Whether a trusted proxy told the address in `scope["client"]`."""
    client = scope.get("client")
    return client is not None and client[1] == _NO_PORT


async def _no_app(*_: object) -> None:
    """Stands in for an application: only the reading of addresses is used."""
