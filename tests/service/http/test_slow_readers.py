"""Clients that read slowly or not at all, and what their answers reserve, over sockets."""

import asyncio
import socket
from contextlib import suppress
from dataclasses import dataclass, field

import pytest
from starlette.requests import ClientDisconnect
from starlette.types import Receive, Scope, Send

from service.errors import OverloadedError
from service.http import transport
from service.http.response_budget import ResponseBudget
from service.metrics import Metrics
from tests.service.connections import PATIENCE, Client, Served, answer, get, serving, until

SIZE = 20_000_000  # more than the kernel holds


@dataclass
class Sized:
    """Gives answers of the size that the path names, each with its reservation.

    Args:
        held: paths whose answer waits until the test removes them.
        failing: paths that fail once they have a reservation.
        refused: paths that did not fit.
    """

    held: set[str] = field(default_factory=set)
    failing: set[str] = field(default_factory=set)
    refused: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        metrics = Metrics([])
        self.limit = ResponseBudget(3 * SIZE, metrics.sending_bytes)
        self.gauge = metrics.sending_bytes

    @property
    def taken(self) -> float:
        """Bytes of all reservations."""
        return float(self.gauge._value.get())

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Reserves bytes, waits, answers."""
        del receive
        path: str = scope["path"]
        size = int(path.strip("/"))
        try:
            reserved = self.limit.reserve(scope, answer=size, making=size + 1000)
        except OverloadedError:
            self.refused.append(path)
            await answer(send, b"refused")
            return
        await until(lambda: path not in self.held)
        if path in self.failing:
            await answer(send, b"failed")
            return
        if reserved is not None:
            reserved.shrink(size)
        with suppress(ClientDisconnect):
            await answer(send, b"x" * size)


async def ask_without_reading(served: Served, request: bytes) -> Client:
    client = await served.connect()
    client.reader._transport.pause_reading()  # type: ignore[attr-defined]
    await client.say(request)
    return client


async def read_all(client: Client, size: int) -> None:
    client.reader._transport.resume_reading()  # type: ignore[attr-defined]
    async with asyncio.timeout(PATIENCE):
        head = await client.reader.readuntil(b"\r\n\r\n")
        assert head.startswith(b"HTTP/1.1 200 ")
        await client.reader.readexactly(size)


async def test_an_answer_is_reserved_until_its_last_byte_is_sent() -> None:
    app = Sized(held={f"/{SIZE}"})

    async with serving(app) as served:
        client = await ask_without_reading(served, get(f"/{SIZE}"))
        await until(lambda: app.taken == SIZE + 1000)
        app.held.clear()
        await until(lambda: served.state.total_requests == 1)
        buffer = served.made[0].transport
        for _ in range(20):
            await asyncio.sleep(0.01)
            assert app.taken == SIZE
            assert buffer.get_write_buffer_size() > 0
        await read_all(client, SIZE)
        await until(lambda: app.taken == 0)
        assert buffer.get_write_buffer_size() == 0
        # The connection goes on, and so does the count.
        await client.say(get(f"/{SIZE}"))
        await read_all(client, SIZE)
        await until(lambda: app.taken == 0)
    assert app.refused == []


@pytest.mark.parametrize("size", [70_000, 500_000])
async def test_an_answer_that_the_kernel_takes_whole_releases_its_bytes_at_once(size: int) -> None:
    app = Sized()

    async with serving(app) as served:
        client = await served.connect()
        for _ in range(3):
            await client.say(get(f"/{size}"))
            await read_all(client, size)
            await until(lambda: app.taken == 0)
    assert app.refused == []


async def test_a_client_that_leaves_releases_its_bytes_when_its_request_ends() -> None:
    app = Sized(held={f"/{SIZE}"})

    async with serving(app) as served:
        computing = await ask_without_reading(served, get(f"/{SIZE}"))
        await until(lambda: app.taken > 0)
        computing.writer.transport.abort()
        await served.is_left()
        assert app.taken == SIZE + 1000  # it is still computed
        app.held.clear()
        await until(lambda: app.taken == 0)
        reading = await ask_without_reading(served, get(f"/{SIZE}"))
        await until(lambda: app.taken == SIZE)
        reading.writer.transport.abort()
        await until(lambda: app.taken == 0)


async def test_a_request_that_fails_releases_its_bytes() -> None:
    app = Sized(failing={f"/{SIZE}"})

    async with serving(app) as served:
        client = await served.connect()
        await client.say(get(f"/{SIZE}", b"Connection: close"))
        assert (await client.hear()).endswith(b"failed")
        await until(lambda: app.taken == 0)


async def test_a_pipeline_of_large_answers_has_budget_for_one() -> None:
    app = Sized()

    async with serving(app) as served:
        await ask_without_reading(served, get(f"/{SIZE}") + get(f"/{SIZE + 1}"))
        await until(lambda: app.refused == [f"/{SIZE + 1}"])
        assert app.taken == SIZE


async def read_slowly(port: int, size: int, *, piece: int, pause: float) -> int:
    """How much of an answer comes to a client that reads piece by piece."""
    loop = asyncio.get_running_loop()
    received = 0
    with socket.socket() as client:
        client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 16_384)
        client.connect(("127.0.0.1", port))
        client.setblocking(False)
        await loop.sock_sendall(client, get(f"/{size}", b"Connection: close"))
        try:
            while data := await loop.sock_recv(client, piece):
                received += len(data)
                await asyncio.sleep(pause)
        except ConnectionResetError:
            return received
    return received


@pytest.mark.parametrize(
    ("rate", "whole"), [(10**9, False), (100_000, True)], ids=("too-slow", "fast-enough")
)
async def test_who_reads_below_the_least_rate_is_disconnected(
    monkeypatch: pytest.MonkeyPatch, rate: int, *, whole: bool
) -> None:
    """Windows of a second; the client reads a megabyte in each at least."""
    monkeypatch.setattr(transport, "_STALL_SECONDS", 1.0)
    monkeypatch.setattr(transport, "_LEAST_RATE", rate)
    app = Sized()

    async with serving(app) as served:
        received = await read_slowly(served.port, SIZE, piece=65_536, pause=0.01)
        assert (received > SIZE) is whole
        await until(lambda: app.taken == 0)


async def test_a_slow_line_gets_an_answer_that_ends_within_the_first_time(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """However low its rate: only the second look asks for one."""
    monkeypatch.setattr(transport, "_STALL_SECONDS", 1000.0)
    monkeypatch.setattr(transport, "_LEAST_RATE", 10**9)
    size = 6_000_000
    app = Sized()

    async with serving(app) as served:
        assert await read_slowly(served.port, size, piece=65_536, pause=0.002) > size


async def test_a_new_wait_has_its_own_first_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """A connection with many answers is not judged by the time between them."""
    monkeypatch.setattr(transport, "_STALL_SECONDS", 0.2)
    monkeypatch.setattr(transport, "_LEAST_RATE", 10**9)
    app = Sized()

    async with serving(app) as served:
        client = await served.connect()
        for _ in range(30):
            await client.say(get("/100"))
            await read_all(client, 100)
            await asyncio.sleep(0.02)
        connection = served.made[0].transport
        # Output that begins to wait now has not waited since the last look.
        assert connection._is_fresh
        assert not connection.is_closing()
