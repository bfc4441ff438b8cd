"""Both clients over real sockets to servers that refuse, break off or say what they should not."""

import gzip
import re
from collections.abc import Sequence

import httpx
import pytest

from headlight_client import Client, NoAnswerError, UnexpectedAnswerError
from tests.client.conftest import Ask
from tests.client.scripted import (
    Reply,
    predicted,
    prediction,
    problem,
    scripted,
    unused_address,
)

PREDICTED = predicted("positive")
BUSY = problem(503, "overloaded", retry_after=3)


@pytest.mark.parametrize(
    ("failures", "at_least"),
    [
        ([BUSY, Reply(503, b"<html>", {"Retry-After": "2"})], [3.0, 2.0]),
        ([Reply(0), problem(503, "not-ready")], [0.125, 0.25]),
    ],
)
def test_asks_again(
    ask: Ask, pauses: list[float], failures: Sequence[Reply], at_least: list[float]
) -> None:
    with scripted([*failures, PREDICTED]) as server:
        assert ask(server.url, "predict", ["Grüße"]) == [prediction("positive")]

    assert len(pauses) == len(at_least)
    for pause, least in zip(pauses, at_least, strict=True):
        assert least <= pause <= least + 0.5
    assert len(server.requests) == len(failures) + 1
    for request in server.requests:
        assert (request.method, request.path) == ("POST", "/predict")
        assert request.body == (
            '{"sentences":["Grüße"],"truncation":"right","on_error":"request"}'.encode()
        )
        assert request.headers["content-type"] == "application/json"
        assert request.headers["accept"] == "application/json"
        assert request.headers["user-agent"] == "headlight-client/0.1.0"
        assert 0 < float(request.headers["x-request-timeout"]) <= 30
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
