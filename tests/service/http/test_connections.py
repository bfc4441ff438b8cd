"""Connections beyond the limit: idle ones make room, health is answered, others are refused."""

import asyncio
import logging

import pytest

from service.http import server, transport
from service.http.access import ApiKeys, Gate, MemoryWatch
from service.http.middleware import Lifecycle
from service.http.server import Capacity, plan_capacity
from service.http.transport import Connections
from service.metrics import Metrics
from tests.service.connections import Client, Paced, Served, bodies, get, serving, until

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
            api_keys=ApiKeys(frozenset()),
            routes={},
            seconds=1.0,
        )

    @property
    def open(self) -> float:
        return float(self.metrics.connections._value.get())


async def fill(served: Served, parts: Parts, paced: Paced) -> list[Client]:
    clients = []
    for number in range(MOST):
        clients.append(await served.connect())
        await clients[-1].say(get(f"/busy{number}"))
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
            healthy = await served.connect()
            await healthy.say(get("/health/live"))
            answer = await healthy.hear()
            assert answer.startswith(b"HTTP/1.1 200 ")
            assert b"\r\nconnection: close\r\n" in answer
            refused = await served.connect()
            await refused.say(get("/model") + get("/health/live"))
            answer = await refused.hear()
            assert answer.startswith(b"HTTP/1.1 503 ")
            assert answer.count(b"HTTP/1.1 ") == 1
            assert b"\r\nconnection: close" in answer
            assert b'"type":"/problems/overloaded"' in answer
            assert b"The service has 4 connections, which is its limit: " in answer
            head = await served.connect()
            await head.say(get("/model").replace(b"GET", b"HEAD"))
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
        busy = await served.connect()
        await busy.say(get("/busy"))
        await until(lambda: paced.begun == ["/busy"])
        idle = [await served.connect() for _ in range(MOST - 1)]
        await until(lambda: parts.open == MOST)
        await idle[0].say(get("/a"))  # so it is the last of them
        await idle[0].reader.readuntil(b"/a")
        for expected in (idle[1], idle[2], idle[0]):
            new = await served.connect()
            await new.say(get("/b"))
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
        refused = await served.connect()
        await refused.say(get("/model"))
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
        healthy = await served.connect()
        await healthy.say(get("/health/ready"))
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


@pytest.mark.parametrize(
    ("files", "connections_", "backlog"),
    [
        (120, 48, 16),
        (1024, 726, 242),
        (20_000, 4096, 2048),
        (-1, 4096, 2048),
    ],
)
def test_the_open_files_decide(files: int, connections_: int, backlog: int) -> None:
    capacity = plan_capacity("auto", files)
    assert (capacity.connections, capacity.backlog) == (connections_, backlog)
    assert plan_capacity(connections_, files) == capacity
    if files > 0:
        assert connections_ + backlog + transport.EXTRA + server._OWN_FILES <= files


@pytest.mark.parametrize(
    ("wanted", "files", "fault"),
    [
        (
            100,
            120,
            "100 connections do not fit into 120 open files: raise the limit (ulimit -n) to 272 or "
            "more, or lower this to 48 or less",
        ),
        (
            "auto",
            64,
            "16 connections do not fit into 64 open files: raise the limit (ulimit -n) to 104 or "
            "more",
        ),
    ],
)
def test_what_the_open_files_do_not_allow(wanted: int, files: int, fault: str) -> None:
    with pytest.raises(ValueError, match="open files") as caught:
        plan_capacity(wanted, files)
    assert str(caught.value) == fault
    raised = int(fault.partition("-n) to ")[2].split()[0])
    assert plan_capacity(wanted, raised).connections >= 16


def test_without_limits_of_open_files_as_on_windows(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server, "resource", None)

    assert plan_capacity("auto") == Capacity(connections=4096, backlog=2048, files=-1)


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
