"""Both clients over real sockets to servers that refuse, break off, trickle or say nothing."""

import asyncio
import gzip
import re

import httpx
import pytest

from headlight_client import (
    AsyncClient,
    Client,
    NoAnswerError,
    ServiceTimedOutError,
    TimedOutError,
    UnexpectedAnswerError,
)
from headlight_client.exchange import Blocking, run
from tests.client.conftest import Ask
from tests.client.scripted import Reply, predicted, prediction, scripted, unused_address

PREDICTED = predicted("positive")


def test_asks_again(ask: Ask, pauses: list[float]) -> None:
    failures = [Reply(0), Reply(503, b"<html>", {"Retry-After": "2"})]
    with scripted([*failures, PREDICTED]) as server:
        assert ask(server.url, "predict", ["Grüße"]) == [prediction("positive")]
    for pause, least in zip(pauses, [0.125, 2.0], strict=True):
        assert least <= pause <= least + 0.5
    assert len(server.requests) == 3
    for request in server.requests:
        assert (request.method, request.path) == ("POST", "/predict")
        assert request.body == (
            '{"sentences":["Grüße"],"truncation":"right","on_error":"request"}'.encode()
        )
        assert "authorization" not in request.headers
    # One call keeps its name, so that the log of the service shows its attempts together.
    (name,) = {request.headers["x-request-id"] for request in server.requests}
    assert re.fullmatch("[0-9a-f]{32}", name)


def test_an_address_where_nothing_listens(ask: Ask, pauses: list[float]) -> None:
    with unused_address() as url:
        assert ask(url, "is_ready") is False
        assert pauses == []
        with pytest.raises(NoAnswerError, match=rf"^no answer from {url}: .*\?$") as caught:
            ask(url, "predict", ["a"])
    assert len(pauses) == 2
    assert isinstance(caught.value.__cause__, httpx.ConnectError)


def test_compressed_on_the_way(ask: Ask) -> None:
    headers = {"Content-Encoding": "gzip"}
    with scripted([Reply(200, gzip.compress(PREDICTED.content), headers)]) as server:
        assert ask(server.url, "predict", ["a"]) == [prediction("positive")]
    damaged = Reply(200, b"not gzip", headers)
    with scripted([damaged]) as server, pytest.raises(UnexpectedAnswerError):
        ask(server.url, "predict", ["a"])


def test_a_key_and_a_client_of_the_callers_own() -> None:
    with scripted([PREDICTED]) as server, httpx.Client(headers={"X-Team": "red"}) as http:
        with Client(server.url, api_key="the-key", http_client=http) as client:
            client.predict(["a"])
        assert not http.is_closed
    assert server.requests[0].headers["authorization"] == "Bearer the-key"
    assert server.requests[0].headers["x-team"] == "red"


HALF = Reply(200, b"abc", body_bytes=1)
ONE = httpx.Limits(max_connections=1)


def test_a_server_that_says_nothing(ask: Ask, pauses: list[float]) -> None:
    with scripted([Reply(-1)]) as server:
        with pytest.raises(TimedOutError) as caught:
            ask(server.url, "predict", ["a"], options={"timeout": 0.2})
        assert ask(server.url, "is_ready", options={"timeout": 0.2}) is False
    assert caught.value.request_id == server.requests[0].headers["x-request-id"]
    assert not isinstance(caught.value, ServiceTimedOutError)
    assert (len(server.requests), pauses) == (2, [])
    assert 0 < float(server.requests[0].headers["x-request-timeout"]) <= 0.2


@pytest.mark.parametrize(
    "reply",
    [
        Reply(200, PREDICTED.content, PREDICTED.headers, body_pause=0.02),
        # There is no body whose pieces could be looked at.
        Reply(404, b"", {f"X-{number}": "a" for number in range(15)}, 0.1),
    ],
    ids=["body", "headers"],
)
def test_an_answer_that_trickles(ask: Ask, reply: Reply) -> None:
    # No single pause is as long as `timeout`; all together are, and the answer would be read.
    with scripted([reply]) as server, pytest.raises(TimedOutError):
        ask(server.url, "predict", ["a"], options={"timeout": 0.5})


def test_an_answer_that_comes_in_pieces_but_in_time(ask: Ask) -> None:
    slow = Reply(200, b'{"status": "ready"}', {"X-Slow": "a"}, 0.02, 0.01)
    with scripted([slow]) as server:
        assert ask(server.url, "is_ready") is True


def test_each_wait_gets_what_is_left_when_its_part_begins() -> None:
    at = [100.0]
    seen: list[dict[str, float]] = []

    def handle(request: httpx.Request) -> httpx.Response:
        for passed in (0.0, 2.0, 3.0, 9.0):
            at[0] += passed
            seen.append(dict(request.extensions["timeout"]))
        return httpx.Response(200)

    limits = httpx.Timeout(8.0, connect=5.0, pool=7.0)
    with httpx.Client(transport=httpx.MockTransport(handle)) as http:
        request = http.build_request("GET", "http://there", timeout=limits)
        with pytest.raises(httpx.ReadTimeout):
            run(Blocking(http, lambda: at[0]).send(request, 8.0))

    assert seen == [
        {"connect": 5.0, "read": 8.0, "write": 8.0, "pool": 7.0},
        {"connect": 5.0, "read": 6.0, "write": 6.0, "pool": 6.0},
        {"connect": 3.0, "read": 3.0, "write": 3.0, "pool": 3.0},
        {"connect": 0.001, "read": 0.001, "write": 0.001, "pool": 0.001},
    ]


def test_too_many_calls_at_once() -> None:
    with (
        scripted([HALF]) as server,
        httpx.Client(limits=ONE) as http,
        # An answer that is not read to its end keeps the only connection.
        http.stream("GET", server.url),
        pytest.raises(TimedOutError) as caught,
    ):
        Client(server.url, timeout=0.2, http_client=http).model()
    assert str(caught.value).startswith("too many calls at once: none of this client's ")
    assert len(server.requests) == 1


def test_too_many_calls_of_one_event_loop() -> None:
    async def ask_twice(url: str) -> None:
        async with httpx.AsyncClient(limits=ONE) as http, http.stream("GET", url):
            await AsyncClient(url, timeout=2, http_client=http).model()

    with scripted([HALF]) as server, pytest.raises(TimedOutError) as caught:
        asyncio.run(ask_twice(server.url))

    assert str(caught.value).startswith("too many calls at once: none of this client's ")
    assert len(server.requests) == 1
