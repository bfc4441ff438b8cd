"""Clients that do not read, that are still sending, or that stay, over real sockets."""

import asyncio
import socket
from collections.abc import Callable, Coroutine
from dataclasses import dataclass, field
from typing import Any

import pytest
from starlette.requests import ClientDisconnect
from starlette.types import Receive, Scope, Send

from service.http import transport
from tests.service.connections import (
    NOT_HTTP,
    PATIENCE,
    Paced,
    Served,
    answer,
    bodies,
    get,
    serving,
    until,
)

SIZE = 20_000_000  # more than the kernel holds


@dataclass
class Large:
    """Gives large answers.

    Args:
        gone: paths whose client had left before the answer was sent.
    """

    gone: list[str] = field(default_factory=list)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Sends a large answer."""
        del receive
        try:
            await answer(send, b"x" * SIZE)
        except ClientDisconnect:
            self.gone.append(scope["path"])


async def connect_without_reading(served: Served, *requests: bytes) -> None:
    """Sends requests, and reads little of the first answer."""
    client = await served.connect()
    client.reader._transport.pause_reading()  # type: ignore[attr-defined]
    await client.say(b"".join(requests))
    await until(lambda: served.state.total_requests == 1)


@pytest.mark.parametrize("requests", [1, 2])
async def test_a_client_that_does_not_read_is_disconnected(
    monkeypatch: pytest.MonkeyPatch, requests: int
) -> None:
    monkeypatch.setattr(transport, "_STALL_SECONDS", 0.3)
    large = Large()

    async with serving(large) as served:
        await connect_without_reading(served, get("/a"), *[get("/b")] * (requests - 1))
        await served.is_left()
        await until(lambda: not served.state.tasks)
    assert large.gone == ["/b"] * (requests - 1)


def refusing(size: int) -> Callable[[Scope, Receive, Send], Coroutine[Any, Any, None]]:
    """An application that reads some of a body, answers, and closes."""

    async def refuse(scope: Scope, receive: Receive, send: Send) -> None:
        del scope
        read = 0
        while read < size:
            read += len((await receive())["body"])
        await answer(send, b"/refused", connection="close")

    return refuse


@pytest.mark.parametrize("read", [0, 200_000])
async def test_the_last_answer_reaches_a_client_that_is_still_sending(read: int) -> None:
    async with serving(refusing(read)) as served:
        for _ in range(20):
            client = await served.connect()
            await client.say(b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 4000000\r\n\r\n")
            await client.say(b"x" * 4_000_000)
            assert bodies(await client.hear()) == [b"/refused"]
            client.writer.close()
        await served.is_left()


async def test_the_400_for_a_head_reaches_a_client_that_is_still_sending() -> None:
    async with serving(Paced()) as served:
        client = await served.connect()
        await client.say(b"GET / HTTP/1.1\r\nX: " + b"x" * 4_000_000)
        assert (await client.hear()).endswith(NOT_HTTP)


async def test_a_client_that_never_stops_sending_is_disconnected(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(transport, "_LINGER_BYTES", 1_000_000)

    async with serving(refusing(0)) as served:
        client = await served.connect()
        await client.say(b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 99999999999\r\n\r\n")
        await client.trickle(b"x" * 1_000_000)
        await served.is_left()
        assert 0 <= served.made[0].transport._discarded - 1_000_000 <= 262_144


async def test_a_client_that_does_not_close_after_the_last_answer_is_disconnected(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(transport, "_LINGER_SECONDS", 0.3)

    async with serving(refusing(0)) as served:
        client = await served.connect()
        await client.say(b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 99\r\n\r\n")
        assert bodies(await client.hear()) == [b"/refused"]
        assert served.state.connections  # half open: only the way out is closed
        await served.is_left()


async def test_shutdown_does_not_linger(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(transport, "_LINGER_SECONDS", 1000)

    async with serving(refusing(1)) as served:
        head = b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 99\r\n\r\n"
        before, behind = await served.connect(), await served.connect()
        await before.say(head + b"x")
        assert bodies(await before.hear()) == [b"/refused"]
        await behind.say(head)
        await until(lambda: len(served.made) == 2 and served.made[1]._is_answering())
        for connection in served.made:
            connection.shutdown()
        await behind.say(b"x")
        assert bodies(await behind.hear()) == [b"/refused"]
        await served.is_left()


async def test_shutdown_disconnects_a_client_that_does_not_read_sooner(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(transport, "_STALL_SECONDS", 1000)
    monkeypatch.setattr(transport, "_STALL_SECONDS_AT_END", 0.3)

    async with serving(Large()) as served:
        await connect_without_reading(served, get("/a"))
        served.made[0].shutdown()
        await served.is_left()


async def test_shutdown_limits_the_time_to_read_an_answer() -> None:
    loop = asyncio.get_running_loop()
    async with serving(Large(), graceful=1) as served:
        with socket.create_connection(("127.0.0.1", served.port)) as client:
            client.setblocking(False)
            await loop.sock_sendall(client, get("/"))
            await loop.sock_recv(client, 1000)
            served.made[0].shutdown()
            async with asyncio.timeout(PATIENCE):
                while served.state.connections:
                    await loop.sock_recv(client, 1000)
                    await asyncio.sleep(0.02)
            assert served.made[0].transport._written > SIZE
