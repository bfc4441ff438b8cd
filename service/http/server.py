"""Runs the server process, and ends it without losing a request."""

import asyncio
import logging
import math
import os
import signal
import socket
import time
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from types import FrameType
from typing import Literal, NamedTuple

import uvicorn
from fastapi import FastAPI

from service.http.access import TrustedProxies
from service.http.middleware import Lifecycle
from service.http.protocol import HttpProtocol
from service.http.transport import EXTRA, Connections
from service.settings import Settings

try:
    import resource
except ImportError:  # not on Windows, where sockets are no files
    resource = None  # type: ignore[assignment]

logger = logging.getLogger("headlight.server")

# Longer than load balancers keep idle connections, so that the balancer always closes first.
_KEEP_ALIVE_SECONDS = 75
_SECONDS_BETWEEN_LINES = 5.0
# Files that the process has open without any connection, with some to spare.
_OWN_FILES = 40
# Connections that the kernel may hand over at once, before any of them can be closed.
_MOST_BACKLOG = 2048
_MOST_CONNECTIONS = 4096
_FEWEST = 16
_ENDLESS = 2**30


class DrainingServer(uvicorn.Server):
    """Goes on answering for a while after SIGTERM.

    On SIGTERM readiness turns off. For `drain_seconds` everything else is still answered, on new
    connections too, so that a load balancer has time to notice. Then the socket closes, the
    current requests end, and `run` returns. SIGINT skips the wait. A second signal ends the
    process at once.

    Args:
        loaded: waits for the model, at most the given seconds; returns whether it is there, None
            while it loads.
    """

    def __init__(
        self,
        config: uvicorn.Config,
        *,
        lifecycle: Lifecycle,
        drain_seconds: float,
        loaded: Callable[[float], Awaitable[bool | None]],
    ) -> None:
        super().__init__(config)
        self._lifecycle = lifecycle
        self._loaded = loaded
        self._drain_seconds = drain_seconds
        self._loop: asyncio.AbstractEventLoop | None = None  # once it accepts connections

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        """Begins to drain; a signal calls it between two instructions of the main thread."""
        del frame
        if self._lifecycle.draining:
            os._exit(128 + sig)
        self._lifecycle.draining = True
        if self._loop is None:
            self.should_exit = True
        else:
            seconds = self._drain_seconds if sig == signal.SIGTERM else 0.0
            self._loop.call_soon_threadsafe(self._drain, self._loop, seconds)

    def _drain(self, loop: asyncio.AbstractEventLoop, seconds: float) -> None:
        logger.info("draining: not ready any more", extra={"seconds": seconds})
        loop.call_later(seconds, setattr, self, "should_exit", True)

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Starts to accept connections, and to wait for the model."""
        await super().startup(sockets)
        self._loop = asyncio.get_running_loop()
        self._showing = self._loop.create_task(self._show(sockets or []))

    async def _show(self, sockets: Sequence[socket.socket]) -> None:
        """Logs every few seconds that the model loads, and at last the address of the page."""
        began = time.monotonic()
        for listening in sockets:
            logger.info("listening at %s while the model loads", address(listening))
        while (is_loaded := await self._loaded(_SECONDS_BETWEEN_LINES)) is None:
            logger.info("the model loads", extra={"seconds": round(time.monotonic() - began)})
        for listening in sockets if is_loaded else ():
            logger.info("the page is at %s", address(listening))

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Stops accepting connections, and waits for the current requests."""
        self._lifecycle.ended = True
        await super().shutdown(sockets)


def listen(host: str, port: int) -> socket.socket:
    """Opens the socket to listen on; port 0 takes any free one.

    Raises:
        OSError: the name is unknown, or the address is taken or belongs to another machine.
    """
    try:
        family, kind, protocol, _, bound = socket.getaddrinfo(
            host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
    except UnicodeError as error:  # a part of the name is empty or too long
        raise socket.gaierror(socket.EAI_NONAME, "Not the name of a host") from error
    listening = socket.socket(family, kind, protocol)
    try:
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listening.bind(bound)
        listening.listen(_MOST_BACKLOG)
    except OSError:
        listening.close()
        raise
    listening.setblocking(False)
    return listening


def address(listening: socket.socket) -> str:
    """The URL of a listening socket, as a browser on this machine can open it."""
    host, port = listening.getsockname()[:2]
    host = {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(host, host)  # noqa: S104 - not bound here
    return f"http://[{host}]:{port}/" if ":" in host else f"http://{host}:{port}/"


class Capacity(NamedTuple):
    """Open and waiting connections that the limit of open files allows."""

    connections: int
    backlog: int


def plan_capacity(wanted: int | Literal["auto"], files: int | None = None) -> Capacity:
    """Divides the open files among connections, those that wait, and the process itself.

    Args:
        wanted: number of connections; `auto` takes as many as are sensible.
        files: the limit of open files; that of the process if None.

    Raises:
        ValueError: the limit does not allow so many.
    """
    if files is None:
        files = -1
        if resource is not None:
            files, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    free = _ENDLESS if files < 0 else files - _OWN_FILES - EXTRA
    backlog = min(_MOST_BACKLOG, max(_FEWEST, free // 4))
    most = free - backlog
    connections = min(_MOST_CONNECTIONS, most) if wanted == "auto" else wanted
    if connections > most or connections < 1:
        needed = max(_FEWEST, 0 if wanted == "auto" else wanted)
        raise ValueError(
            f"{needed} connections do not fit into {files} open files: raise the limit "
            f"(ulimit -n) to {2 * needed + _OWN_FILES + EXTRA + _FEWEST} or more"
            + ("" if wanted == "auto" else f", or lower this to {max(most, 0)} or less")
        )
    return Capacity(connections, backlog)


def serve(app: FastAPI, listening: socket.socket, settings: Settings, lifecycle: Lifecycle) -> None:
    """Serves until a signal ends it; returns when all current requests are answered."""
    state = app.state.headlight
    capacity = plan_capacity(settings.max_connections)
    trusted = settings.trusted_proxies
    http = partial(
        HttpProtocol,
        gate=state.gate,
        proxies=TrustedProxies(trusted) if trusted else None,
        slots=Connections(capacity.connections, state.metrics),
    )
    config = uvicorn.Config(
        app,
        http=http,  # type: ignore[arg-type]
        proxy_headers=False,  # the protocol reads them
        ws="none",
        lifespan="on",
        log_config=None,
        access_log=False,
        server_header=False,
        timeout_keep_alive=_KEEP_ALIVE_SECONDS,
        timeout_graceful_shutdown=math.ceil(settings.request_timeout) + 1,
        backlog=capacity.backlog,
    )
    server = DrainingServer(
        config,
        lifecycle=lifecycle,
        drain_seconds=settings.drain_seconds,
        loaded=state.engine.loaded,
    )
    server.run(sockets=[listening])
