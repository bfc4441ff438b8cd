"""The first door: while there is no room at all, a request is refused before it becomes one.

A flood is answered by one thread, the one that also hands out what was computed. Reading,
checking and routing each request only to refuse it would take all of that thread's time, and the
answers of those who were let in would come too late. So what would be refused whatever is in it is
refused by its first line and headers. It is counted, but has no line in the log.
"""

import asyncio
import math
from collections.abc import Iterable
from http import HTTPStatus

from starlette.responses import Response

from service.errors import OverloadedError
from service.http.lifecycle import Lifecycle
from service.http.middleware import response_headers
from service.http.origins import Origins
from service.inference.engine import Engine
from service.metrics import Metrics

# For so long nobody looks again whether there is room.
_CLOSED_SECONDS = 0.01

Headers = Iterable[tuple[bytes, bytes]]


class Gate:
    """Refuses what would wait for the network, while nothing more can wait.

    Args:
        engine: whose queue it is.
        lifecycle: a process that ends says so in every answer, which the gate cannot.
        metrics: where refusals are counted.
        routes: method and path of what waits for the network.
        seconds: that a request has.
        origins: pages elsewhere that may read its answers.
    """

    def __init__(
        self,
        engine: Engine,
        lifecycle: Lifecycle,
        metrics: Metrics,
        *,
        routes: Iterable[tuple[str, str]],
        seconds: float,
        origins: Origins,
    ) -> None:
        self._engine = engine
        self._lifecycle = lifecycle
        self._seconds = seconds
        self._origins = origins
        self._closed_until = -math.inf
        self._let_in = 0  # in this round of the event loop, and not yet in the queue
        self._answer = Response()
        status = str(int(OverloadedError.status))
        self._problems = metrics.problems.labels(OverloadedError.type)
        self._refused = {
            (method.encode("ascii"), path.encode("ascii")): metrics.requests.labels(
                path, method, status
            )
            for method, path in routes
        }

    def refuse(self, method: bytes, path: bytes, headers: Headers) -> bytes | None:
        """The whole answer of a request that is refused; None if it may come in.

        Args:
            method: of the request.
            path: of it, without its query.
            headers: of it, names in lower case.
        """
        refused = self._refused.get((method, path))
        if refused is None or self._lifecycle.draining:
            return None
        loop = asyncio.get_running_loop()
        now = loop.time()
        if now >= self._closed_until:
            try:
                self._engine.check_room(now + self._seconds, ahead=self._let_in)
            except OverloadedError as error:
                self._answer = error.response()
                self._closed_until = now + _CLOSED_SECONDS
            else:
                if not self._let_in:
                    loop.call_soon(self._forget)
                self._let_in += 1
                return None
        refused.inc()
        self._problems.inc()
        return _render(self._answer, [*response_headers(headers), *self._origins.headers(headers)])

    def _forget(self) -> None:
        """By the next round of the event loop those who were let in stand in the queue."""
        self._let_in = 0


def _render(response: Response, added: Headers) -> bytes:
    status = response.status_code
    lines = [b"HTTP/1.1 %d %s" % (status, HTTPStatus(status).phrase.encode("ascii"))]
    lines += [b"%s: %s" % header for header in (*response.raw_headers, *added)]
    return b"\r\n".join([*lines, b"", bytes(response.body)])
