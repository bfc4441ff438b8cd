"""Clients that read slowly or not at all, keep sending, or are too many, over real sockets."""

import asyncio
import logging
import socket
import sys
from collections.abc import Callable, Coroutine
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, cast

import pytest
from starlette.requests import ClientDisconnect
from starlette.types import Receive, Scope, Send

from service.errors import OverloadedError
from service.http import transport
from service.http.access import ApiKeys, Gate, MemoryWatch
from service.http.middleware import Lifecycle
from service.http.transport import SMALL_BYTES, Connections, ResponseBudget
from service.metrics import Metrics
from tests.service.connections import (
    PATIENCE,
    POST,
    Client,
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
    gone: list[str] = field(default_factory=list)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        del receive
        try:
            await answer(send, b"x" * SIZE)
        except ClientDisconnect:
            self.gone.append(scope["path"])


async def ask_without_reading(served: Served, requests: bytes) -> Client:
    """Sends requests, and reads little of the first answer."""
    client = await served.connect()
    client.reader._transport.pause_reading()  # type: ignore[attr-defined]
    await client.say(requests)
    return client


async def test_a_client_that_does_not_read_is_disconnected(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(transport, "_STALL_SECONDS", 0.3)
    large = Large()
    async with serving(large) as served:
        await ask_without_reading(served, get("/a") + get("/b"))
        await until(lambda: served.state.total_requests == 1)
        await served.is_left()
        await until(lambda: not served.state.tasks)
    assert large.gone == ["/b"]


def refusing(size: int) -> Callable[[Scope, Receive, Send], Coroutine[Any, Any, None]]:
    """An application that reads some of a body, answers, and closes."""

    async def refuse(scope: Scope, receive: Receive, send: Send) -> None:
        del scope
        read = 0
        while read < size:
            read += len((await receive())["body"])
        await answer(send, b"/refused", connection="close")

    return refuse


async def test_the_last_answer_reaches_a_client_that_is_still_sending() -> None:
    async with serving(refusing(200_000)) as served:
        for _ in range(20):
            client = await served.connect(POST % (b"", 4_000_000))
            await client.say(b"x" * 4_000_000)
            assert bodies(await client.hear()) == [b"/refused"]
            client.writer.close()
        await served.is_left()


async def test_a_client_that_never_stops_sending_is_disconnected(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(transport, "_LINGER_BYTES", 1_000_000)
    async with serving(refusing(0)) as served:
        client = await served.connect(POST % (b"", 99_999_999_999))
        await client.trickle(b"x" * 1_000_000)
        await served.is_left()
        assert 0 <= served.made[0].transport._discarded - 1_000_000 <= 262_144


async def test_a_client_that_does_not_close_after_the_last_answer_is_disconnected(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(transport, "_LINGER_SECONDS", 0.3)
    async with serving(refusing(0)) as served:
        client = await served.connect(POST % (b"", 99))
        assert bodies(await client.hear()) == [b"/refused"]
        assert served.state.connections  # half open: only the way out is closed
        await served.is_left()


async def test_shutdown_does_not_linger(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(transport, "_LINGER_SECONDS", 1000)
    async with serving(refusing(1)) as served:
        head = POST % (b"", 99)
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
        await ask_without_reading(served, get("/a"))
        await until(lambda: served.state.total_requests == 1)
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


@dataclass
class Sized:
    """Gives answers of the size that the path names, each with its reservation."""

    held: set[str] = field(default_factory=set)
    refused: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        metrics = Metrics([])
        self.limit = ResponseBudget(3 * SIZE, metrics.sending_bytes)
        self.gauge = metrics.sending_bytes

    @property
    def taken(self) -> float:
        return float(self.gauge._value.get())

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        del receive
        path: str = scope["path"]
        size = int(path.strip("/"))
        try:
            reserved = self.limit.reserve(scope, answer=size, making=size + 1000)
        except OverloadedError as error:
            self.refused.append(error.detail)
            await answer(send, b"refused")
            return
        await until(lambda: path not in self.held)
        if reserved is not None:
            reserved.shrink(size)
        with suppress(ClientDisconnect):
            await answer(send, b"x" * size)


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
        # The connection goes on, and so does the count; also of what the kernel takes whole.
        for size in (SIZE, 70_000, 70_000):
            await client.say(get(f"/{size}"))
            await read_all(client, size)
            await until(lambda: app.taken == 0)
    assert app.refused == []


async def test_answers_share_the_budget_and_a_connection_has_one_at_a_time() -> None:
    app = Sized()
    async with serving(app) as served:
        await ask_without_reading(served, get(f"/{SIZE}") * 2)
        await until(lambda: len(app.refused) == 1)
        await ask_without_reading(served, get(f"/{SIZE}"))
        await until(lambda: app.taken == 2 * SIZE)
        await ask_without_reading(served, get(f"/{SIZE}"))
        await until(lambda: len(app.refused) == 2)
        small = await served.connect(get(f"/{SMALL_BYTES}"))  # reserves nothing
        await read_all(small, SMALL_BYTES)
    assert app.refused == [
        "The last large answer on this connection has not been read to its end: read it first, or "
        "use another connection.",
        f"The answer takes up to {SIZE + 1000} bytes, and large answers that are not read yet take "
        f"{2 * SIZE} of {3 * SIZE} bytes: try again later, or ask for fewer layers or heads.",
    ]


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


async def test_what_the_kernel_still_holds_counts_as_not_delivered() -> None:
    async with serving(Large()) as served:
        client = await ask_without_reading(served, get("/a"))
        await until(lambda: served.state.total_requests == 1)
        buffer = served.made[0].transport
        if sys.platform == "linux":
            await until(lambda: transport._unacknowledged(buffer._transport) > 0)
            assert buffer._count_delivered() < buffer._written - buffer.get_write_buffer_size()
        await read_all(client, SIZE)
        await until(lambda: buffer._count_delivered() == buffer._written)


class Output(asyncio.Transport):
    """Takes an answer of which `waiting` bytes are not sent yet."""

    waiting = 0
    is_aborted = False

    def write(self, data: bytes | bytearray | memoryview) -> None:
        self.waiting += len(data)

    def get_write_buffer_size(self) -> int:
        return self.waiting

    def is_closing(self) -> bool:
        return self.is_aborted

    def abort(self) -> None:
        self.is_aborted = True


class Looks:
    """Runs the timer that looks at the reading, in place of an event loop."""

    def __init__(self) -> None:
        self.times: list[tuple[float, Callable[[], None]]] = []

    def call_later(self, seconds: float, look: Callable[[], None]) -> Callable[[], None]:
        self.times.append((seconds, look))
        return look

    def look(self) -> None:
        ((seconds, look),) = self.times
        self.times.clear()
        assert seconds == transport._STALL_SECONDS
        look()


LEAST = round(transport._LEAST_RATE * transport._STALL_SECONDS)


@pytest.mark.parametrize(
    ("read", "aborted"),
    [
        ([0], True),
        ([1], False),  # a slow line has time for a small answer
        ([1, LEAST - 1], True),
        ([1, LEAST, LEAST], False),
        ([LEAST, LEAST, 1], True),
    ],
)
def test_who_reads_below_the_least_rate_is_disconnected(
    monkeypatch: pytest.MonkeyPatch, read: list[int], *, aborted: bool
) -> None:
    monkeypatch.setattr(transport, "_unacknowledged", lambda _: 0)
    output, looks = Output(), Looks()
    connection = transport.ClientTransport(
        output, cast("asyncio.AbstractEventLoop", looks), lambda: False
    )
    connection.write(bytes(4 * LEAST))
    for size in read:
        assert not output.is_aborted
        output.waiting -= size
        looks.look()
    assert output.is_aborted is aborted
    if aborted:
        return
    # An answer that begins to wait now has not waited since the last look.
    output.waiting = 0
    connection.write(bytes(LEAST))
    output.waiting -= 1
    looks.look()
    assert not output.is_aborted


MOST = 4


class Parts:
    """What a server with few places has."""

    def __init__(self) -> None:
        self.metrics = Metrics([])
        self.slots = Connections(MOST, self.metrics)
        self.gate = Gate(
            lambda *_: None,
            Lifecycle(),
            self.metrics,
            MemoryWatch(),
            api_keys=ApiKeys({}),
            routes={},
            seconds=1.0,
        )

    @property
    def open(self) -> float:
        return float(self.metrics.connections._value.get())


async def fill(served: Served, parts: Parts, paced: Paced) -> list[Client]:
    clients = []
    for number in range(MOST):
        clients.append(await served.connect(get(f"/busy{number}")))
    await until(lambda: len(paced.begun) == MOST)
    assert parts.open == MOST
    return clients


def held() -> Paced:
    return Paced(held={f"/busy{number}" for number in range(MOST)})


async def test_beyond_the_limit_health_is_answered_and_all_else_refused(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.INFO, "headlight.server")
    parts, paced = Parts(), held()

    async with serving(paced, gate=parts.gate, slots=parts.slots) as served:
        busy = await fill(served, parts, paced)
        for _ in range(3):
            healthy = await served.connect(get("/health/live"))
            answer = await healthy.hear()
            assert answer.startswith(b"HTTP/1.1 200 ")
            assert b"\r\nconnection: close\r\n" in answer
            refused = await served.connect(get("/model") + get("/health/live"))
            answer = await refused.hear()
            assert answer.startswith(b"HTTP/1.1 503 ")
            assert answer.count(b"HTTP/1.1 ") == 1
            assert b"\r\nconnection: close" in answer
            assert b'"type":"/problems/overloaded"' in answer
            assert b"The service has 4 connections, which is its limit: " in answer
            head = await served.connect(get("/model").replace(b"GET", b"HEAD"))
            assert (await head.hear()).endswith(b"\r\n\r\n")
        paced.held.clear()
        for client in busy:
            await client.reader.readuntil(b"\r\n\r\n")
            client.writer.close()
        await until(lambda: parts.open == 0)
    assert parts.metrics.refused.labels("connections")._value.get() == 6
    assert [record.getMessage() for record in caplog.records] == [
        "all connections are taken: idle ones are closed, others are refused",
        "there is room for connections again",
    ]


async def test_the_longest_idle_makes_room(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(transport, "_IDLE_SECONDS", 0.0)
    parts, paced = Parts(), Paced(held={"/busy"})

    async with serving(paced, gate=parts.gate, slots=parts.slots) as served:
        busy = await served.connect(get("/busy"))
        await until(lambda: paced.begun == ["/busy"])
        idle = [await served.connect() for _ in range(MOST - 1)]
        await until(lambda: parts.open == MOST)
        await idle[0].say(get("/a"))  # so it is the last of them
        await idle[0].reader.readuntil(b"/a")
        for expected in (idle[1], idle[2], idle[0]):
            new = await served.connect(get("/b"))
            await new.reader.readuntil(b"/b")
            assert await expected.hear() == b""
        paced.held.clear()
        await busy.reader.readuntil(b"/busy")
    assert parts.metrics.connections_closed._value.get() == MOST - 1
    assert parts.metrics.refused.labels("connections")._value.get() == 0


async def test_a_connection_that_has_just_come_is_not_idle() -> None:
    parts = Parts()
    async with serving(Paced(), gate=parts.gate, slots=parts.slots) as served:
        kept = [await served.connect() for _ in range(MOST)]
        await until(lambda: parts.open == MOST)
        refused = await served.connect(get("/model"))
        assert (await refused.hear()).startswith(b"HTTP/1.1 503 ")
        for client in kept:
            await client.say(get("/kept", b"Connection: close"))
            assert bodies(await client.hear()) == [b"/kept"]


async def test_silent_ones_beyond_the_limit_are_closed_first() -> None:
    parts, paced = Parts(), held()
    async with serving(paced, gate=parts.gate, slots=parts.slots) as served:
        await fill(served, parts, paced)
        silent = [await served.connect() for _ in range(transport.EXTRA + 3)]
        await until(lambda: parts.metrics.connections_closed._value.get() == 3)
        assert parts.open == MOST + transport.EXTRA
        for client in silent[:3]:
            assert await client.hear_or_be_reset() == b""
        healthy = await served.connect(get("/health/ready"))
        assert (await healthy.hear()).startswith(b"HTTP/1.1 200 ")


async def test_silent_ones_beyond_the_limit_have_little_time(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("service.http.protocol._EXTRA_SECONDS", 0.1)
    parts, paced = Parts(), held()
    async with serving(paced, gate=parts.gate, slots=parts.slots) as served:
        await fill(served, parts, paced)
        silent = await served.connect()
        assert await silent.hear() == b""
        await until(lambda: parts.open == MOST)


async def test_nothing_is_left_of_connections_that_are_gone() -> None:
    parts = Parts()
    async with serving(Paced(), gate=parts.gate, slots=parts.slots) as served:
        for _ in range(3):
            clients = [await served.connect() for _ in range(3 * MOST)]
            await asyncio.gather(*(client.say(get("/model")) for client in clients))
            for client in clients:
                client.writer.close()
            await until(lambda: parts.open == 0 and not served.state.connections)
    slots = parts.slots
    assert (slots._open, dict(slots._idle), dict(slots._extra)) == (set(), {}, {})
