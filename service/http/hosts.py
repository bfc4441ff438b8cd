"""Which names of this service are answered, and which pages elsewhere may ask it.

A page of anybody's can make a browser ask a service in its user's network, under a name that its
owner points there (DNS rebinding). Whoever names the hosts that are meant ends that.
"""

import re
from collections.abc import Awaitable, Callable, Sequence

from starlette.requests import Request
from starlette.responses import Response
from starlette.types import ASGIApp, Receive, Scope, Send

from service.errors import MisdirectedError, ServiceError
from service.http.middleware import HEALTH_PREFIX

_HOST = re.compile(r"(?:\*\.)?[a-z0-9](?:[a-z0-9.-]*[a-z0-9])?|\[[0-9a-f:.]+\]")
_ORIGIN = re.compile(
    r"https?://(?:[a-z0-9](?:[a-z0-9.-]*[a-z0-9])?|\[[0-9a-f:.]+\])(?::[0-9]{1,5})?"
)
_PORT = re.compile(r":[0-9]*$")


class AllowedHosts:
    """ASGI middleware that answers only requests to names that are meant; health to any.

    Args:
        app: what answers.
        hosts: as `read_hosts` gives them.
        answer_problem: makes the answer of an error.
    """

    def __init__(
        self,
        app: ASGIApp,
        *,
        hosts: Sequence[str],
        answer_problem: Callable[[Request, ServiceError], Awaitable[Response]],
    ) -> None:
        self._app = app
        self._names = frozenset(host for host in hosts if not host.startswith("*."))
        self._endings = tuple(host[1:] for host in hosts if host.startswith("*."))
        self._answer_problem = answer_problem

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answers one request."""
        if scope["type"] != "http" or scope["path"].startswith(HEALTH_PREFIX):
            await self._app(scope, receive, send)
            return
        given = [value for name, value in scope["headers"] if name == b"host"]
        host = given[0].decode("latin-1").lower() if len(given) == 1 else ""
        if self._is_meant(_PORT.sub("", host)):
            await self._app(scope, receive, send)
            return
        error = MisdirectedError(
            "This service does not answer under the name in the header Host: ask it by one of its "
            "own names."
        )
        response = await self._answer_problem(Request(scope, receive, send), error)
        await response(scope, receive, send)

    def _is_meant(self, host: str) -> bool:
        return bool(host) and (host in self._names or host.endswith(self._endings))


def read_hosts(value: str) -> list[str]:
    """The names of a setting.

    Args:
        value: names or addresses, without ports, separated by commas; `*.` stands for one name
            or more before the rest.

    Raises:
        ValueError: one is none, or there is none.
    """
    return _read(value, _HOST, "a name without a port, such as example.org or *.example.org")


def read_origins(value: str) -> list[str]:
    """The origins of a setting.

    Args:
        value: origins, separated by commas, or `*` alone for all.

    Raises:
        ValueError: one is none, or there is none.
    """
    if value.strip() == "*":
        return ["*"]
    return _read(value, _ORIGIN, "an origin, such as https://example.org, or * alone for all")


def _read(value: str, pattern: re.Pattern[str], wanted: str) -> list[str]:
    given = [part.strip().lower() for part in value.split(",") if part.strip()]
    wrong = next((part for part in given if not pattern.fullmatch(part)), None)
    if wrong is not None or not given:
        raise ValueError(f"{value if wrong is None else wrong!r} is not {wanted}")
    return given
