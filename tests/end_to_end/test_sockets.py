"""What a client library would hide: sizes, pipelines, offers, and what is not HTTP at all."""

import json
import socket
import time
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.end_to_end.routes import assert_members
from tests.end_to_end.servers import RunningService, wait_until

LIMIT = 250_000
BODY = b'{"sentences": ["good"]}'
HEAD = b"POST /predict HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n"
CHUNKED = HEAD + b"Transfer-Encoding: chunked\r\n"
SIZED = HEAD + b"Content-Length: %d\r\n" % len(BODY)
CLOSE = b"Connection: close\r\n"
OFFER = b"Connection: Upgrade, HTTP2-Settings%s\r\nUpgrade: h2c\r\nHTTP2-Settings: AAMAAABk\r\n"
END = b"\r\n"
OK = b"HTTP/1.1 200 OK\r\n"
NOT_HTTP = "Invalid HTTP request received."


def content(answer: bytes) -> Any:  # noqa: ANN401
    return json.loads(answer.partition(b"\r\n\r\n")[2])


def test_a_declared_length_is_refused_before_the_body_is_sent(running: RunningService) -> None:
    answer = running.send(HEAD + b"Content-Length: 99999999999\r\nExpect: 100-continue\r\n\r\n")
    assert answer.startswith(b"HTTP/1.1 413 ")
    assert b"\r\nconnection: close\r\n" in answer
    assert_members(content(answer), 413, "payload-too-large", says="250000")


def test_a_client_that_waits_for_the_word_gets_it(running: RunningService) -> None:
    with running.connect() as connection:
        connection.sendall(SIZED + CLOSE + b"Expect: 100-continue\r\n\r\n")
        assert connection.recv(65536) == b"HTTP/1.1 100 Continue\r\n\r\n"
        connection.sendall(BODY)
        assert connection.recv(65536).startswith(OK)


def test_a_chunked_body_is_refused_as_soon_as_it_is_too_long(running: RunningService) -> None:
    chunk = BODY.ljust(LIMIT)
    chunks = b"%x\r\n%b\r\n%x\r\n%b\r\n0\r\n\r\n" % (1000, chunk[:1000], LIMIT - 1000, chunk[1000:])
    assert running.send(CHUNKED + CLOSE + END, chunks).startswith(OK)
    # and the last chunk never comes
    answer = running.send(CHUNKED + END, b"%x\r\n%b\r\n1\r\nx\r\n" % (LIMIT, b" " * LIMIT))
    assert answer.startswith(b"HTTP/1.1 413 ")
    assert_members(content(answer), 413, "payload-too-large", says="250000")


def test_what_follows_a_refused_body_is_no_request(running: RunningService) -> None:
    smuggled = b"GET /health/live HTTP/1.1\r\nHost: x\r\n\r\n"
    answer = running.send(HEAD + b"Content-Length: %d\r\n\r\n%b" % (LIMIT + 1, smuggled))
    assert answer.count(b"HTTP/1.1 ") == 1


@pytest.mark.parametrize("chunked", [False, True])
@pytest.mark.parametrize("size", [10_000, 23])
def test_an_offer_of_another_protocol_is_ignored(
    running: RunningService, size: int, *, chunked: bool
) -> None:
    """As Java's own client makes it with every request; it goes on with HTTP/1.1 if ignored."""
    body = b"%x\r\n%b\r\n0\r\n\r\n" % (len(BODY), BODY) if chunked else BODY
    head = CHUNKED if chunked else SIZED
    requests = (head + OFFER % b"" + END + body) * 2 + head + OFFER % b", close" + END + body
    pieces = [requests[start : start + size] for start in range(0, len(requests), size)]
    answers = running.send(*pieces)
    assert answers.count(OK) == 3
    assert answers.count(b"\r\nconnection: close\r\n") == 1


def test_a_websocket_is_answered_as_a_request(running: RunningService) -> None:
    answer = running.send(
        b"GET /health/live HTTP/1.1\r\nHost: x\r\nUpgrade: websocket\r\n"
        b"Connection: Upgrade, close\r\n\r\n"
    )
    assert answer.startswith(OK)
    assert content(answer) == {"status": "live"}


@pytest.mark.parametrize("offer", [b"", b"Connection: Upgrade, keep-alive\r\nUpgrade: h2c\r\n"])
def test_http_1_0_stays_http_1_0(running: RunningService, offer: bytes) -> None:
    """It has no Host, and closes after its answer, whatever it offers."""
    answer = running.send((b"GET /health/live HTTP/1.0\r\n" + offer + END) * 2)
    assert answer.count(OK) == 1
    assert b"\r\nconnection: close\r\n" in answer
    assert content(answer) == {"status": "live"}


@pytest.mark.parametrize(
    "data",
    [
        b"\x16\x03\x01 good morning\r\n\r\n",
        b"GET /\x00 HTTP/1.1\r\nHost: x\r\n\r\n",
        "GET /attention?sentence=kanar\u00ed HTTP/1.1\r\nHost: x\r\n\r\n".encode(),
        b"GET /attention?sentence=%b HTTP/1.1\r\nHost: x\r\n\r\n" % (b"kanari" * 11_000),
        b"CONNECT kanari:80 HTTP/1.1\r\nHost: x\r\n\r\n",
        b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
        HEAD + b"Content-Length: 1\r\nContent-Length: 2\r\n\r\n",
        HEAD + b"Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
        CHUNKED + b"\r\nkanari\r\n",
    ],
)
def test_what_is_not_http_gets_a_bare_400(running: RunningService, data: bytes) -> None:
    answer = running.send(data)
    head, _, text = answer.partition(b"\r\n\r\n")
    lines = head.splitlines()
    del lines[1]  # the date
    assert lines == [
        b"HTTP/1.1 400 Bad Request",
        b"content-type: text/plain; charset=utf-8",
        b"content-length: %d" % len(NOT_HTTP),
        b"connection: close",
    ]
    assert text == NOT_HTTP.encode()
    assert "kanari" not in running.log.read_text("utf-8").lower()


@pytest.mark.parametrize(
    "sent",
    [
        (SIZED + END + BODY) * 4,
        b"GET /health/ready HTTP/1.1\r\nHost: x\r\n\r\n" * 3,
        b"GET /model HTTP/1.1\r\nHost: x\r\n\r\nno request\r\n\r\n",
        SIZED + b"Expect: 100-continue\r\n\r\n",
        SIZED[:40],
        SIZED + END + BODY[:9],
    ],
    ids=("predictions", "health", "not-http-behind", "expect", "half a head", "half a body"),
)
def test_a_client_that_resets_while_it_is_answered_is_no_failure(
    running: RunningService, client: httpx.Client, sent: bytes
) -> None:
    for number in range(20):
        with running.connect() as connection:
            connection.sendall(sent)
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\x01" + b"\x00" * 7)
            time.sleep(number % 4 * 0.0005)
    assert client.post("/predict", json={"sentences": ["good"]}).status_code == 200
    wait_until(lambda: running.metric("headlight_requests_in_progress") == 1)
    assert running.metric("headlight_queue_tokens") == 0
    assert running.errors() == []


def test_paths_lead_nowhere_else(running: RunningService) -> None:
    for path in (
        b"//predict", b"/predict%2f", b"/predict;x", b"/static", b"/static/",
        b"/static/../__main__.py", b"/static/%2e%2e/__main__.py", b"/static/%00", b"/%00%ff", b"*",
        b"/static//etc/passwd", b"/static/__init__.py", b"/static/%s" % (b"x" * 5000),
        b"/static/..%2findex.html", b"/static/%2fetc%2fpasswd",
        b"/static/0123456789ab/%2e%2e/index.html", b"/static/0123456789ab/..%2findex.html",
    ):  # fmt: skip
        answer = running.send(b"GET %b HTTP/1.1\r\nHost: x\r\n%b\r\n" % (path, CLOSE))
        assert answer.startswith(b"HTTP/1.1 404 Not Found\r\n"), path
        assert b'"type":"/problems/not-found"' in answer
    log = Path(running.log).read_text("utf-8")
    assert "passwd" not in log
