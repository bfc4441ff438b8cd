"""Serves a test's application with the service's protocol, over real sockets in this process.

So a test can see what another process would hide: what waits, and what is in memory.
"""

import asyncio
import re
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager, suppress
from contextvars import copy_context
from dataclasses import dataclass, field
from typing import Any, TypeVar

import pytest
import uvicorn
from starlette.types import ASGIApp, Receive, Scope, Send
from uvicorn.server import ServerState

from service.http.access import Gate
from service.http.protocol import HttpProtocol

Result = TypeVar("Result")
PATIENCE = 30.0
POST = b"POST /%s HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n"
NOT_HTTP = b"\r\n\r\nInvalid HTTP request received."


@dataclass
class Served:
    port: int
    state: ServerState
    made: list[HttpProtocol]
    clients: list["Client"] = field(default_factory=list)

    async def connect(self, said: bytes = b"") -> "Client":
        """A client that has said something."""
        client = Client(*await asyncio.open_connection("127.0.0.1", self.port))
        self.clients.append(client)
        if said:
            await client.say(said)
        return client

    async def is_left(self) -> None:
        await until(lambda: not self.state.connections)


@dataclass
class Client:
    """The client's side of a connection."""

    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter

    async def say(self, data: bytes) -> None:
        self.writer.write(data)
        await self.writer.drain()

    async def trickle(self, data: bytes) -> None:
        """Sends the same bytes again and again, until the connection is closed."""
        with suppress(OSError):
            while not self.writer.is_closing():  # uvloop raises another error behind a reset
                await self.say(data)
                await asyncio.sleep(0.02)

    async def hear(self) -> bytes:
        """Reads until the service closes the connection."""
        async with asyncio.timeout(PATIENCE):
            return await self.reader.read()

    async def hear_or_be_reset(self) -> bytes:
        """Does the same for a client that goes on sending."""
        received = b""
        async with asyncio.timeout(PATIENCE):
            with suppress(ConnectionResetError):
                while piece := await self.reader.read(65536):
                    received += piece
        return received


@asynccontextmanager
async def serving(
    app: ASGIApp,
    *,
    keep_alive: int = 1000,
    graceful: int = 1000,
    gate: Gate | None = None,
    **parts: Any,  # noqa: ANN401
) -> AsyncIterator[Served]:
    """Serves an application until the block ends."""
    config = uvicorn.Config(
        app,
        proxy_headers=False,
        ws="none",
        lifespan="off",
        log_config=None,
        timeout_keep_alive=keep_alive,
        timeout_graceful_shutdown=graceful,
    )
    state = ServerState()
    made: list[HttpProtocol] = []

    def connection() -> HttpProtocol:
        made.append(
            HttpProtocol(config=config, server_state=state, app_state={}, gate=gate, **parts)
        )
        return made[-1]

    server = await asyncio.get_running_loop().create_server(connection, "127.0.0.1", 0)
    served = Served(server.sockets[0].getsockname()[1], state, made)
    try:
        yield served
    finally:
        server.close()
        for client in served.clients:
            if not client.writer.is_closing():
                client.writer.transport.abort()
        for protocol in list(state.connections):
            protocol.transport.abort()
        await until(lambda: not state.connections and not state.tasks)


def at_once(work: Coroutine[Any, Any, Result]) -> Result:
    """Runs what has nothing to wait for, without an event loop."""
    with pytest.raises(StopIteration) as ended:
        copy_context().run(work.send, None)
    result: Result = ended.value.value
    return result


async def until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(PATIENCE):
        while not condition():  # noqa: ASYNC110 - few conditions have an event
            await asyncio.sleep(0.005)


@dataclass
class Paced:
    """Answers each path with itself, once the test allows it."""

    held: set[str] = field(default_factory=set)
    begun: list[str] = field(default_factory=list)
    left: list[str] = field(default_factory=list)
    headers: list[tuple[bytes, bytes]] = field(default_factory=list)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Reads the whole request, waits, answers."""
        path: str = scope["path"]
        self.begun.append(path)
        while (message := await receive()).get("more_body"):
            pass
        self.headers = scope["headers"]
        leaving = asyncio.ensure_future(receive())
        await until(lambda: path not in self.held or leaving.done())
        if message["type"] == "http.disconnect" or leaving.done():
            self.left.append(path)
            return
        leaving.cancel()
        await answer(send, path.encode("ascii"))


async def answer(send: Send, body: bytes, **headers: str) -> None:
    named = [(name.encode("ascii"), value.encode("ascii")) for name, value in headers.items()]
    length = (b"content-length", b"%d" % len(body))
    await send({"type": "http.response.start", "status": 200, "headers": [length, *named]})
    await send({"type": "http.response.body", "body": body})


def get(path: str, *headers: bytes) -> bytes:
    return b"\r\n".join([b"GET %b HTTP/1.1" % path.encode("ascii"), b"Host: x", *headers, b"", b""])


def bodies(received: bytes) -> list[bytes]:
    """The bodies of answers that are paths."""
    return re.findall(rb"\r\n\r\n(/\w*?)(?=HTTP/1|$)", received)
