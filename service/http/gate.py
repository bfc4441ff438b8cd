"""Saves the event loop work on the busiest routes: refuses early, and skips the frameworks.

One thread reads all requests and sends all answers. In a flood it would spend its time on those
that it refuses. So `Gate` refuses by the head, without a line in the log. FastAPI's routing takes
several times as long as a prediction of one sentence, so `DirectApp` calls endpoints itself.
"""

import asyncio
from collections.abc import Callable, Collection, Iterable, Mapping
from http import HTTPStatus
from typing import NamedTuple

from fastapi import FastAPI
from fastapi.routing import APIRoute
from starlette.middleware.cors import CORSMiddleware
from starlette.requests import Request
from starlette.types import ASGIApp, Receive, Scope, Send

from service.errors import OverloadedError, Refusal
from service.http.access import ApiKeys, client_of, cors_headers
from service.http.capacity import ANY_SHARE, LARGE_SHARE, SMALL_BODY, MemoryWatch
from service.http.middleware import (
    REQUEST_ID,
    RESPONSE_HEADERS,
    Headers,
    Lifecycle,
    request_id,
)
from service.inference.admission import ClientId
from service.inference.engine import Engine
from service.metrics import UNMATCHED, Metrics

Layer = Callable[[ASGIApp], ASGIApp]

# Headers of bodies whose length says nothing of what they hold.
_OF_UNKNOWN_SIZE = frozenset({b"transfer-encoding", b"content-encoding"})


class Gate:
    """Refuses requests that would wait for the network.

    Args:
        engine: the engine with the queue.
        lifecycle: while the process drains, the gate stays open, because its answers cannot say so.
        metrics: counts the refusals.
        memory: if it is nearly full, large bodies are refused before other requests.
        api_keys: the valid keys, which identify clients.
        routes: methods and paths that wait for the network, each with the path of its route.
        foreign: those of other systems, whose problems have the member `error`, too.
        seconds: time limit of a request.
        cors: lets other origins read the answers; None if no origin is allowed.
    """

    def __init__(
        self,
        engine: Engine,
        lifecycle: Lifecycle,
        metrics: Metrics,
        memory: MemoryWatch,
        *,
        api_keys: ApiKeys,
        routes: Mapping[tuple[str, str], str],
        foreign: Collection[tuple[str, str]] = (),
        seconds: float,
        cors: CORSMiddleware | None = None,
    ) -> None:
        self._engine = engine
        self._lifecycle = lifecycle
        self._metrics = metrics
        self._memory = memory
        self._api_keys = api_keys
        self._seconds = seconds
        self._cors = cors
        empty = OverloadedError("", refusal=Refusal.QUEUE_FULL)
        self._written = {foreign: _write(empty, foreign) for foreign in (False, True)}
        self._let_in = 0  # in this round of the event loop, and not yet in the queue
        self._routes = {
            (method.encode("ascii"), path.encode("ascii")): route
            for (method, path), route in routes.items()
        }
        self._foreign = {(method.encode("ascii"), path.encode("ascii")) for method, path in foreign}

    def reject(
        self,
        method: bytes,
        path: bytes,
        headers: Headers,
        *,
        peer: tuple[str, int] | None = None,
        closes: bool = False,
    ) -> bytes | None:
        """Returns the whole answer if the request is refused; None if it may come in.

        Args:
            method: HTTP method.
            path: path without query.
            headers: names in lower case.
            peer: address and port of the client.
            closes: whether the connection closes after the answer, which then says so.
        """
        route = self._routes.get((method, path))
        if route is None or self._lifecycle.draining:
            return None
        loop = asyncio.get_running_loop()
        try:
            if self._memory.share > LARGE_SHARE:
                self._memory.check(LARGE_SHARE if _has_large_body(headers) else ANY_SHARE)
            client = ClientId(client_of(self._api_keys, peer, headers), route)
            self._engine.check_room(client, loop.time() + self._seconds, ahead=self._let_in)
        except OverloadedError as error:
            return self.answer(error, (method, path), headers, closes=closes, route=route)
        if not self._let_in:
            loop.call_soon(self._forget)
        self._let_in += 1
        return None

    def answer(
        self,
        error: OverloadedError,
        place: tuple[bytes, bytes],
        headers: Headers,
        *,
        closes: bool,
        route: str = UNMATCHED,
    ) -> bytes:
        """Counts a refused request of a method and path, and returns the whole answer."""
        method = UNMATCHED if route == UNMATCHED else place[0].decode("ascii")
        self._metrics.requests.labels(route, method, str(error.status)).inc()
        is_foreign = place in self._foreign
        self._metrics.count_problem(error)
        written = self._written[is_foreign]
        if error is not written.error:  # the same for all requests that are refused within a moment
            written = self._written[is_foreign] = _write(error, is_foreign)
        own = [(REQUEST_ID.lower().encode("ascii"), request_id(headers).encode("ascii"))]
        if self._cors is not None:
            own += cors_headers(self._cors, headers)
        if closes:
            own.append((b"connection", b"close"))
        lines = [b"%s: %s" % header for header in own]
        return b"\r\n".join([written.head, *lines, b"", written.body])

    def _forget(self) -> None:
        """Starts a new round: the requests that were let in are now in the queue."""
        self._let_in = 0


def _has_large_body(headers: Headers) -> bool:
    """Whether a body is large, or does not say how large it is; unpacked, it may be larger."""
    for name, value in headers:
        if name in _OF_UNKNOWN_SIZE or (name == b"content-length" and int(value) > SMALL_BODY):
            return True
    return False


class _Written(NamedTuple):
    """The part of an answer that all requests with the same error share."""

    error: OverloadedError
    head: bytes
    body: bytes


def _write(error: OverloadedError, is_foreign: bool) -> _Written:
    response = error.response(with_error=is_foreign)
    lines = [b"HTTP/1.1 %d %s" % (error.status, HTTPStatus(error.status).phrase.encode("ascii"))]
    lines += [b"%s: %s" % header for header in (*response.raw_headers, *RESPONSE_HEADERS)]
    return _Written(error, b"\r\n".join(lines), bytes(response.body))


def direct_routes(
    routes: Iterable[APIRoute], names: Mapping[str, str]
) -> dict[tuple[str, str], APIRoute]:
    """Maps each method and path to its route.

    Args:
        routes: those whose paths have other parameters than `names` are left out.
        names: the only valid value of each parameter of a path.
    """
    return {
        (method, route.path.format(**names)): route
        for route in routes
        if route.param_convertors.keys() <= names.keys()
        for method in route.methods or ()
    }


class DirectApp(FastAPI):
    """An application with a short way to some of its routes."""

    _direct: frozenset[tuple[str, str]] = frozenset()
    _short_way: ASGIApp

    def surround(
        self, layers: Iterable[Layer], *, direct: Mapping[tuple[str, str], APIRoute]
    ) -> None:
        """Puts layers round the application, and round the direct way to some routes.

        Args:
            layers: from the innermost to the outermost.
            direct: method and path of routes whose endpoints take only a request. It has no path
                parameters.
        """
        routes = dict(direct)

        async def call_endpoint(scope: Scope, receive: Receive, send: Send) -> None:
            route = routes[scope["method"], scope["path"]]
            scope["route"] = route
            answer = await route.endpoint(Request(scope, receive, send))
            await answer(scope, receive, send)  # a response is an ASGI app

        self._direct = frozenset(routes)
        self._short_way = call_endpoint
        for layer in layers:
            self.add_middleware(layer)
            self._short_way = layer(self._short_way)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answers one request."""
        if (scope.get("method", ""), scope.get("path", "")) in self._direct:
            scope["app"] = self
            await self._short_way(scope, receive, send)
        else:
            await super().__call__(scope, receive, send)
