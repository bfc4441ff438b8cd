"""Both clients over real sockets to servers that refuse, break off or say what they should not."""

import gzip
import re
from collections.abc import Sequence

import httpx
import pytest

from headlight_client import (
    Client,
    NoAnswerError,
    ProblemError,
    UnavailableError,
    UnexpectedAnswerError,
)
from tests.client.conftest import Ask
from tests.client.scripted import (
    Reply,
    predicted,
    prediction,
    problem,
    scripted,
    unused_address,
)
from tests.matching import exactly

PREDICTED = predicted("positive")
BUSY = problem(503, "overloaded", retry_after=3)


@pytest.mark.parametrize(
    ("failures", "at_least"),
    [
        ([BUSY, BUSY], [3.0, 3.0]),
        ([Reply(503, b"<html>", {"Retry-After": "2"}), Reply(502)], [2.0, 0.25]),
        ([Reply(0), problem(503, "not-ready")], [0.125, 0.25]),
        ([Reply(503, b"", {"Retry-After": "Wed, 21 Oct 2015 07:28:00 GMT"})], [0.0]),
        ([Reply(429, b"", {"Retry-After": "1"}), Reply(429)], [1.0, 0.25]),
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


def test_every_call_has_a_name_of_its_own(ask: Ask) -> None:
    with scripted([PREDICTED]) as server:
        for _ in range(3):
            ask(server.url, "predict", ["a"])

    assert len({request.headers["x-request-id"] for request in server.requests}) == 3


def test_gives_up_after_so_many_retries(ask: Ask, pauses: list[float]) -> None:
    with (
        scripted([BUSY]) as server,
        pytest.raises(
            UnavailableError, match=exactly("503 overloaded: It is so. (request id-1)")
        ) as caught,
    ):
        ask(server.url, "model", options={"retries": 4, "timeout": 300})

    assert len(server.requests) == 5
    assert len(pauses) == 4
    assert caught.value.retry_after == 3
    assert caught.value.request_id == "id-1"


@pytest.mark.parametrize("status", [400, 401, 404, 413, 422, 500, 504])
def test_asks_once(ask: Ask, pauses: list[float], status: int) -> None:
    with scripted([problem(status, "a-word")]) as server, pytest.raises(ProblemError) as caught:
        ask(server.url, "predict", ["a"])

    assert (len(server.requests), pauses) == (1, [])
    assert (caught.value.type, caught.value.status) == ("a-word", status)


def test_an_address_where_nothing_listens(ask: Ask, pauses: list[float]) -> None:
    with unused_address() as url:
        assert ask(url, "is_ready") is False
        assert pauses == []
        with pytest.raises(NoAnswerError, match=rf"^no answer from {url}: .*\?$") as caught:
            ask(url, "predict", ["a"])

    assert len(pauses) == 2
    assert isinstance(caught.value.__cause__, httpx.ConnectError)


def test_another_server(ask: Ask) -> None:
    redirect = Reply(302, b"", {"Location": "/login"})
    with scripted([redirect]) as server, pytest.raises(UnexpectedAnswerError) as caught:
        ask(server.url, "model")

    assert str(caught.value) == (
        f"{server.url} answered with status 302, which a Headlight service does not: check base_url"
    )


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
