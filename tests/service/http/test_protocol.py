"""Pipelines, broken input, trailers and time limits, over real sockets; and judging heads."""

import asyncio
import re
from typing import cast

import pytest
from hypothesis import given
from hypothesis import strategies as st
from starlette.types import Receive, Scope, Send

from service.http import protocol, transport
from service.http.access import Gate
from service.http.protocol import find_error
from tests.service.connections import NOT_HTTP, POST, Paced, answer, bodies, get, serving, until

CHUNKED = b"POST /%s HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n"


async def test_a_long_pipeline_takes_little_memory_and_is_answered_whole() -> None:
    most = 0
    count = 5000
    ahead = protocol._MOST_UNPARSED + 262_144  # what uvloop reads at once

    paced = Paced(held={"/0"})
    async with serving(paced) as served:
        client = await served.connect()
        sending = asyncio.ensure_future(
            client.say(b"".join(get(f"/{number}") for number in range(count - 1)))
        )
        await until(lambda: bool(served.made and served.made[0]._unparsed))
        (connection,) = served.made

        async def look() -> None:
            nonlocal most
            while True:
                most = max(most, len(connection.pipeline))
                assert len(connection._unparsed) <= ahead
                await asyncio.sleep(0)

        looking = asyncio.ensure_future(look())
        await asyncio.sleep(0.05)
        paced.held.clear()
        await sending
        await client.say(get(f"/{count - 1}", b"Connection: close"))
        assert bodies(await client.hear()) == [b"/%d" % number for number in range(count)]
        assert not looking.done()
        looking.cancel()
    assert 0 < most <= protocol._PIECE // len(get("/0")) + 1


async def test_a_client_that_leaves_a_pipeline_cancels_the_current_request() -> None:
    paced = Paced(held={"/a"})
    async with serving(paced) as served:
        client = await served.connect(get("/a"))
        await until(lambda: paced.begun == ["/a"])
        await client.say(get("/b") + get("/c"))
        await until(lambda: bool(served.made[0].pipeline))
        client.writer.close()
        await until(lambda: paced.left == ["/a"])
        await served.is_left()
        assert paced.begun == ["/a"]


async def test_a_connection_that_stays_open_keeps_no_body() -> None:
    refused: list[str] = []

    async def refuse(scope: Scope, _receive: Receive, send: Send) -> None:
        await until(lambda: len(served.made[0].cycle.body) == 5000)
        await answer(send, b"/no")
        refused.append(scope["path"])

    async with serving(refuse) as served:
        await served.connect(POST % (b"a", 5000) + b"b" * 5000)
        await until(lambda: bool(refused) and not served.state.tasks)
        assert not served.made[0].cycle.body
        assert served.state.connections


@pytest.mark.parametrize("before", [["/a"], ["/a", "/b"]])
async def test_a_broken_body_does_not_replace_the_answer_before_it(before: list[str]) -> None:
    paced = Paced(held={"/a"})
    async with serving(paced) as served:
        client = await served.connect()
        requests = b"".join(get(path) for path in before)
        await client.say(requests + CHUNKED % b"broken" + b"zz\r\n")
        await until(lambda: paced.begun == ["/a"])
        await asyncio.sleep(0.02)
        paced.held.clear()
        assert bodies(received := await client.hear()) == [path.encode() for path in before]
        assert received.count(b"HTTP/1.1 ") == len(before)
        assert paced.begun == before


async def test_a_body_that_breaks_after_its_answer_gets_no_second_one() -> None:
    async def early(scope: Scope, receive: Receive, send: Send) -> None:
        del scope, receive
        await answer(send, b"/early")

    async with serving(early) as served:
        client = await served.connect(CHUNKED % b"a")
        assert (await client.reader.readuntil(b"/early")).count(b"HTTP/1.1 ") == 1
        await client.say(b"zz\r\n")
        assert await client.hear() == b""


async def test_trailers_do_not_become_headers() -> None:
    paced = Paced()
    async with serving(paced) as served:
        client = await served.connect()
        trailers = b"Content-Type: application/json\r\nX-Request-ID: from-a-trailer\r\n"
        await client.say(CHUNKED % b"a" + b"2\r\n{}\r\n0\r\n" + trailers + b"\r\n")
        await client.reader.readuntil(b"\r\n\r\n/a")
        assert paced.headers == [(b"host", b"x"), (b"transfer-encoding", b"chunked")]
        await client.say(get("/b", b"Connection: close"))
        assert bodies(await client.hear()) == [b"/b"]
        assert paced.headers == [(b"host", b"x"), (b"connection", b"close")]


async def test_others_are_answered_while_many_small_chunks_are_parsed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """No time is a turn of one piece."""
    monkeypatch.setattr(protocol, "_TURN_SECONDS", 0.0)
    async with serving(Paced()) as served:
        client, other = await served.connect(), await served.connect()
        await client.say(CHUNKED % b"a" + b"1\r\nx\r\n" * 40_000)
        await until(lambda: served.made[0]._goes_on)
        left = len(served.made[0]._unparsed)
        await other.say(get("/b"))
        await other.reader.readuntil(b"\r\n\r\n/b")
        assert 0 < len(served.made[0]._unparsed) < left
        await client.say(b"0\r\n\r\n")
        await client.reader.readuntil(b"\r\n\r\n/a")


@pytest.mark.parametrize(
    ("body", "end"),
    [
        (b"2\r\n{}\r\n0\r\n" + b"a: b\r\n" * 1000, NOT_HTTP),
        (b"1\r\nx\r\n" * 3000 + b"0\r\n\r\n", b"\r\n\r\n/a"),  # small chunks are no trailers
    ],
    ids=["trailers", "chunks"],
)
async def test_trailers_have_a_largest_size(
    monkeypatch: pytest.MonkeyPatch, body: bytes, end: bytes
) -> None:
    monkeypatch.setattr(protocol, "LARGEST_HEAD", 3000)
    async with serving(Paced()) as served:
        client = await served.connect(CHUNKED % b"a" + body)
        await client.reader.readuntil(end)


class Shut:
    """Refuses every request, in place of the gate."""

    def __init__(self) -> None:
        self.closes: list[bool] = []

    def reject(self, scope: Scope, *, closes: bool) -> bytes:
        del scope
        self.closes.append(closes)
        return b"HTTP/1.1 503 Service Unavailable\r\nContent-Length: 2\r\n\r\n/x"


@pytest.mark.parametrize(
    ("said", "then", "answers", "shut"),
    [
        (b"\r\n", b"\r\n", 0, False),
        (get("/a"), b"\r\n", 1, False),
        (get("/a"), b"\r\n", 1, True),
        (b"GET / HTTP/1.1\r\nX: ", b"x", 0, False),
        (CHUNKED % b"early", b"1\r\nx\r\n", 1, False),
        (CHUNKED % b"early", b"", 1, True),
        (CHUNKED % b"early" + b"0\r\n", b"a: b\r\n", 1, False),  # trailers
    ],
)
async def test_every_wait_for_a_client_has_a_time_limit(
    monkeypatch: pytest.MonkeyPatch, said: bytes, then: bytes, answers: int, *, shut: bool
) -> None:
    monkeypatch.setattr(protocol, "_HEAD_SECONDS", 0.3)
    monkeypatch.setattr(protocol, "_REST_SECONDS", 0.3)

    async def early(scope: Scope, receive: Receive, send: Send) -> None:
        del scope, receive
        await answer(send, b"/x")

    gate = cast("Gate", Shut()) if shut else None
    async with serving(early, keep_alive=1, gate=gate) as served:
        client = await served.connect(said)
        trickling = asyncio.ensure_future(client.trickle(then)) if then else None
        received = await client.hear_or_be_reset()
        assert received.count(b"HTTP/1.1 ") == len(bodies(received)) == answers
        await served.is_left()
        if trickling is not None:
            await trickling


async def test_a_slow_head_does_not_replace_the_answer_before_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(protocol, "_HEAD_SECONDS", 0.1)
    paced = Paced(held={"/a"})
    async with serving(paced) as served:
        client = await served.connect(get("/a") + b"GET /b HT")
        await asyncio.sleep(0.3)
        paced.held.clear()
        assert bodies(await client.hear()) == [b"/a"]


@pytest.mark.parametrize("closing", [get("/", b"Connection: close"), b"GET / HTTP/1.0\r\n\r\n"])
async def test_a_refusal_by_the_gate_closes_if_the_client_asked_for_it(
    monkeypatch: pytest.MonkeyPatch, closing: bytes
) -> None:
    monkeypatch.setattr(transport, "_LINGER_SECONDS", 1000)
    shut = Shut()
    async with serving(Paced(), gate=cast("Gate", shut)) as served:
        client = await served.connect(get("/") + closing + get("/"))
        assert bodies(await client.hear()) == [b"/x", b"/x"]
        await served.is_left()  # no input of the request was left to read
    assert shut.closes == [False, True]


HOST, CODING = (b"host", b"x"), b"transfer-encoding"
ONLY_CHUNKED = "Transfer-Encoding may only be chunked, given once."


def hosts(count: int) -> str:
    return f"A request has one Host header; this one has {count}."


@pytest.mark.parametrize(
    ("version", "headers", "error"),
    [
        ("1.1", [HOST, (b"accept", b"host")], None),
        ("1.0", [], None),
        ("1.0", [HOST], None),
        ("1.1", [], hosts(0)),
        ("1.1", [HOST, HOST], hosts(2)),
        ("1.0", [HOST, HOST], hosts(2)),
        ("2.0", [HOST], "This service speaks HTTP/1.1 and HTTP/1.0."),
        ("1.1", [HOST, (CODING, b" Chunked ")], None),
        ("1.1", [HOST, (CODING, b"gzip, chunked")], ONLY_CHUNKED),
        ("1.1", [HOST, (CODING, b"chunked"), (CODING, b"chunked")], ONLY_CHUNKED),
    ],
)
def test_a_head_has_one_host_a_known_version_and_a_plain_body(
    version: str, headers: list[tuple[bytes, bytes]], error: str | None
) -> None:
    assert find_error(version, b"/", headers) == error


@given(st.lists(st.sampled_from(["%", "%4", "%2f", "%Fa", "%%", "%zz", "a", "0", "?"]), max_size=6))
def test_escapes(parts: list[str]) -> None:
    url = "".join(["/", *parts])
    rest = re.sub("%[0-9a-fA-F][0-9a-fA-F]", "", url)
    error = find_error("1.1", url.encode(), [HOST])
    assert (error is None) == ("%" not in rest)
