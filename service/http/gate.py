"""Refuses requests by their heads while nothing more can wait for the network.

In a flood, one thread answers every client and also hands out what was computed. Reading, checking
and routing each request only to refuse it would take all the time of that thread, and the clients
that were let in would get their answers too late. So a request that would be refused whatever its
body holds is refused by its first line and headers. It is counted, but has no line in the log.
"""

import asyncio
from collections.abc import Collection, Mapping
from http import HTTPStatus
from typing import NamedTuple

from prometheus_client import Counter
from starlette.middleware.cors import CORSMiddleware

from service.errors import OverloadedError, Refusal
from service.http.access import ApiKeys, client_of, cors_headers
from service.http.memory_watch import ANY_SHARE, LARGE_SHARE, SMALL_BODY, MemoryWatch
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

# Headers of bodies whose length says nothing of what they hold.
_OF_UNKNOWN_SIZE = frozenset({b"transfer-encoding", b"content-encoding"})


class Gate:
    """Refuses requests that would wait for the network; see the module.

    Args:
        engine: the engine with the queue.
        lifecycle: while the process drains, the gate stays open, because its answers cannot say so.
        metrics: where refusals are counted.
        memory: how full it is; large bodies are refused before other requests.
        api_keys: tell clients apart.
        routes: methods and paths that wait for the network, each with the path of its route.
        foreign: those of other systems, whose problems have the member `error`, too.
        seconds: time limit of a request.
        cors: lets pages from elsewhere read the answers; None if no origin is allowed.
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
        status = str(OverloadedError.status)
        self._routes = {
            (method.encode("ascii"), path.encode("ascii")): _Route(
                route,
                metrics.requests.labels(route, method, status),
                (method, path) in foreign,
            )
            for (method, path), route in routes.items()
        }

    def refuse(
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
            method: of the request.
            path: of it, without its query.
            headers: of it, names in lower case.
            peer: address and port of its client.
            closes: whether the connection closes after the answer, which then says so.
        """
        place = self._routes.get((method, path))
        if place is None or self._lifecycle.draining:
            return None
        if self._memory.share > LARGE_SHARE:
            try:
                self._memory.check(LARGE_SHARE if _has_large_body(headers) else ANY_SHARE)
            except OverloadedError as error:
                place.refused.inc()
                return self._answer(error, headers, closes=closes, is_foreign=place.is_foreign)
        loop = asyncio.get_running_loop()
        caller = ClientId(client_of(self._api_keys, peer, headers), place.route)
        try:
            self._engine.check_room(caller, loop.time() + self._seconds, ahead=self._let_in)
        except OverloadedError as error:
            refusal = error
        else:
            if not self._let_in:
                loop.call_soon(self._forget)
            self._let_in += 1
            return None
        place.refused.inc()
        return self._answer(refusal, headers, closes=closes, is_foreign=place.is_foreign)

    def answer(
        self,
        error: OverloadedError,
        place: tuple[bytes, bytes],
        headers: Headers,
        *,
        closes: bool,
    ) -> bytes:
        """Counts a request that is refused for another reason, and returns the whole answer.

        Args:
            error: the reason.
            place: method and path of the request.
            headers: of the request, names in lower case.
            closes: whether the connection closes after the answer.
        """
        self._metrics.requests.labels(UNMATCHED, UNMATCHED, str(error.status)).inc()
        is_foreign = place in self._routes and self._routes[place].is_foreign
        return self._answer(error, headers, closes=closes, is_foreign=is_foreign)

    def _answer(
        self, error: OverloadedError, headers: Headers, *, closes: bool, is_foreign: bool = False
    ) -> bytes:
        self._metrics.count_problem(error)
        written = self._written[is_foreign]
        if error is not written.error:  # the same for all who are refused within a moment
            written = self._written[is_foreign] = _write(error, is_foreign)
        own = [(REQUEST_ID.lower().encode("ascii"), request_id(headers).encode("ascii"))]
        if self._cors is not None:
            own += cors_headers(self._cors, headers)
        if closes:
            own.append((b"connection", b"close"))
        lines = [b"%s: %s" % header for header in own]
        return b"\r\n".join([written.head, *lines, b"", written.body])

    def _forget(self) -> None:
        """Starts a new round: those who were let in now stand in the queue."""
        self._let_in = 0


def _has_large_body(headers: Headers) -> bool:
    """Whether a body is large, or does not say how large it is; unpacked, it may be larger."""
    for name, value in headers:
        if name in _OF_UNKNOWN_SIZE or (name == b"content-length" and int(value) > SMALL_BODY):
            return True
    return False


class _Route(NamedTuple):
    """A method and a path at which requests are refused.

    Args:
        route: the path of the route.
        refused: counts them.
        is_foreign: whether the problem has the member `error`, too.
    """

    route: str
    refused: Counter
    is_foreign: bool


class _Written(NamedTuple):
    """The part of an answer that all who get it share.

    Args:
        error: what it says.
        head: its first line and headers, without the last line break.
        body: the problem.
    """

    error: OverloadedError
    head: bytes
    body: bytes


def _write(error: OverloadedError, is_foreign: bool) -> _Written:
    response = error.response(with_error=is_foreign)
    lines = [b"HTTP/1.1 %d %s" % (error.status, HTTPStatus(error.status).phrase.encode("ascii"))]
    lines += [b"%s: %s" % header for header in (*response.raw_headers, *RESPONSE_HEADERS)]
    return _Written(error, b"\r\n".join(lines), bytes(response.body))
