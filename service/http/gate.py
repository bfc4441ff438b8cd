"""Refuses requests by their heads while nothing more can wait for the network.

In a flood, one thread answers every client and also hands out what was computed. Reading, checking
and routing each request only to refuse it would take all the time of that thread, and the clients
that were let in would get their answers too late. So a request that would be refused whatever its
body holds is refused by its first line and headers. It is counted, but has no line in the log.
"""

import asyncio
from collections.abc import Iterable
from http import HTTPStatus
from typing import NamedTuple

from starlette.middleware.cors import CORSMiddleware

from service.errors import OverloadedError
from service.http.access import ApiKeys, client_of, cors_headers
from service.http.lifecycle import Lifecycle
from service.http.memory import ANY_SHARE, LARGE_SHARE, SMALL_BODY, MemoryWatch
from service.http.middleware import REQUEST_ID, RESPONSE_HEADERS, Headers, request_id
from service.inference.admission import Caller
from service.inference.engine import Engine
from service.metrics import UNMATCHED, Metrics


class Gate:
    """Refuses requests that would wait for the network; see the module.

    Args:
        engine: the engine with the queue.
        lifecycle: while the process drains, the gate stays open, because its answers cannot say so.
        metrics: where refusals are counted.
        memory: how full it is; large bodies are refused before other requests.
        api_keys: tell clients apart.
        routes: methods and paths that wait for the network.
        seconds: that a request has.
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
        routes: Iterable[tuple[str, str]],
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
        self._problems = metrics.problems.labels(OverloadedError.type)
        self._written = _write(OverloadedError(""))
        self._let_in = 0  # in this round of the event loop, and not yet in the queue
        status = str(OverloadedError.status)
        self._refused = {
            (method.encode("ascii"), path.encode("ascii")): metrics.requests.labels(
                path, method, status
            )
            for method, path in routes
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
        refused = self._refused.get((method, path))
        if refused is None or self._lifecycle.draining:
            return None
        if self._memory.share > LARGE_SHARE:
            try:
                self._memory.check(LARGE_SHARE if _has_large_body(headers) else ANY_SHARE)
            except OverloadedError as error:
                refused.inc()
                return self._answer(error, headers, closes=closes)
        loop = asyncio.get_running_loop()
        caller = Caller(client_of(self._api_keys, peer, headers), path.decode("ascii"))
        try:
            self._engine.check_room(caller, loop.time() + self._seconds, ahead=self._let_in)
        except OverloadedError as error:
            refusal = error
        else:
            if not self._let_in:
                loop.call_soon(self._forget)
            self._let_in += 1
            return None
        refused.inc()
        return self._answer(refusal, headers, closes=closes)

    def answer(self, error: OverloadedError, headers: Headers, *, closes: bool) -> bytes:
        """Counts a request that is refused for another reason, and returns the whole answer.

        Args:
            error: the reason.
            headers: of the request, names in lower case.
            closes: whether the connection closes after the answer.
        """
        self._metrics.requests.labels(UNMATCHED, UNMATCHED, str(error.status)).inc()
        return self._answer(error, headers, closes=closes)

    def _answer(self, error: OverloadedError, headers: Headers, *, closes: bool) -> bytes:
        self._problems.inc()
        if error is not self._written.error:  # the same for all who are refused within a moment
            self._written = _write(error)
        own = [(REQUEST_ID.lower().encode("ascii"), request_id(headers).encode("ascii"))]
        if self._cors is not None:
            own += cors_headers(self._cors, headers)
        if closes:
            own.append((b"connection", b"close"))
        lines = [b"%s: %s" % header for header in own]
        return b"\r\n".join([self._written.head, *lines, b"", self._written.body])

    def _forget(self) -> None:
        """Starts a new round: those who were let in now stand in the queue."""
        self._let_in = 0


def _has_large_body(headers: Headers) -> bool:
    """Whether a body is large, or does not say how large it is."""
    for name, value in headers:
        if name == b"transfer-encoding" or (name == b"content-length" and int(value) > SMALL_BODY):
            return True
    return False


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


def _write(error: OverloadedError) -> _Written:
    response = error.response()
    lines = [b"HTTP/1.1 %d %s" % (error.status, HTTPStatus(error.status).phrase.encode("ascii"))]
    lines += [b"%s: %s" % header for header in (*response.raw_headers, *RESPONSE_HEADERS)]
    return _Written(error, b"\r\n".join(lines), bytes(response.body))
