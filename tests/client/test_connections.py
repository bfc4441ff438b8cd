"""Both clients over real sockets to servers that refuse, break off or say what they should not."""

import gzip
import io
import json
from collections.abc import Sequence

import httpx
import numpy as np
import pytest

from headlight_client import (
    Client,
    InvalidRequestError,
    NoAnswerError,
    ProblemError,
    ServiceTimedOutError,
    TimedOutError,
    UnavailableError,
    UnexpectedAnswerError,
)
from tests.client.conftest import Ask
from tests.client.scripted import Reply, answered, problem, scripted, unused_address

PREDICTED = answered({"model": {"name": "m", "version": "v"}, "predictions": []})
BUSY = problem(503, "overloaded", retry_after=3)


@pytest.mark.parametrize(
    ("failures", "at_least"),
    [
        ([BUSY, BUSY], [3.0, 3.0]),
        ([Reply(503, b"<html>", {"Retry-After": "2"}), Reply(502)], [2.0, 0.25]),
        ([Reply(0), problem(503, "not-ready")], [0.125, 0.25]),
        ([Reply(503, b"", {"Retry-After": "Wed, 21 Oct 2026 07:28:00 GMT"})], [0.125]),
    ],
)
def test_asks_again(
    ask: Ask, pauses: list[float], failures: Sequence[Reply], at_least: list[float]
) -> None:
    with scripted([*failures, PREDICTED]) as server:
        assert ask(server.url, "predict", ["Grüße"]) == []

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


def test_gives_up_after_so_many_retries(ask: Ask, pauses: list[float]) -> None:
    with (
        scripted([BUSY]) as server,
        pytest.raises(UnavailableError, match=r"^503 overloaded: It is so\.$") as caught,
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


def test_a_server_that_says_nothing(ask: Ask, pauses: list[float]) -> None:
    with scripted([Reply(-1)]) as server:
        message = f"^{server.url} gave no answer within 0.2 s: send less at once, or raise timeout$"
        with pytest.raises(TimedOutError, match=message) as caught:
            ask(server.url, "predict", ["a"], options={"timeout": 0.2})
        assert ask(server.url, "is_ready", options={"timeout": 0.2}) is False

    assert not isinstance(caught.value, ServiceTimedOutError)
    assert (len(server.requests), pauses) == (2, [])
    assert 0 < float(server.requests[0].headers["x-request-timeout"]) <= 0.2


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"<html>a page</html>",
        b"[]",
        b"{}",
        b'{"model": {"name": "m"}, "predictions": []}',
        b'{"model": {"name": "m", "version": "v"}, "predictions": [{"label": "x"}]}',
        b"\xff",
    ],
)
def test_what_is_no_prediction(ask: Ask, content: bytes) -> None:
    with scripted([Reply(200, content)]) as server, pytest.raises(UnexpectedAnswerError) as caught:
        ask(server.url, "predict", ["a"])

    assert str(caught.value) == (
        f"an answer of {server.url} with status 200 cannot be read: a Headlight service must be "
        "there, of a version that this client knows"
    )


def archive(**changes: object) -> dict[str, object]:
    """The arrays of one sentence of two tokens."""
    return {
        "attention": np.full((1, 1, 2, 2), 0.5, np.float32),
        "tokens": np.array(["a", "b"]),
        "start": np.array([0, 2]),
        "end": np.array([1, 3]),
        "special": np.array([False, True]),
        "word": np.array([0, -1]),
        "layers": np.array([3]),
        "heads": np.array([4]),
        "view": np.array("raw"),
        "labels": np.array(["x", "y"]),
        "probabilities": np.array([0.25, 0.75]),
        "token_count": np.array(2),
        "truncated": np.array(False),
        "model": np.array(["m", "v"]),
        **changes,
    }


def npz(arrays: dict[str, object]) -> bytes:
    buffer = io.BytesIO()
    np.savez(buffer, **arrays)  # type: ignore[arg-type]
    return buffer.getvalue()


def test_an_archive(ask: Ask) -> None:
    with scripted([Reply(200, npz(archive()))]) as server:
        attention = ask(server.url, "attention", "a b")

    assert server.requests[0].headers["accept"] == "application/x-npz"
    assert json.loads(server.requests[0].body) == {
        "sentence": "a b",
        "reduce": "none",
        "level": "token",
        "truncation": "right",
    }
    assert (attention.prediction.label, attention.prediction.score) == ("y", 0.75)
    assert attention.tokens[1].word is None
    assert (attention.layers, attention.heads) == ((3,), (4,))


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"{}",
        npz(archive())[:-30],
        npz(archive()).replace(b"\x93NUMPY", b"\x93NUMPX"),
        npz({name: array for name, array in archive().items() if name != "word"}),
        npz(archive(attention=np.zeros((1, 1, 3, 3), np.float32))),
        npz(archive(attention=np.zeros((2, 1, 2, 2), np.float32))),
        npz(archive(labels=np.array(["x"]))),
        # Nothing is unpickled, whatever it is.
        npz(archive(tokens=np.array(["a", None], object))),
    ],
)
def test_what_is_no_archive(ask: Ask, content: bytes) -> None:
    with scripted([Reply(200, content)]) as server, pytest.raises(UnexpectedAnswerError):
        ask(server.url, "attention", "a b")


@pytest.mark.parametrize("content", [b"[]", b"no JSON", b'{"type": 1}'])
def test_what_is_no_problem(ask: Ask, content: bytes) -> None:
    reply = Reply(400, content, {"Content-Type": "application/problem+json"})
    with scripted([reply]) as server, pytest.raises(UnexpectedAnswerError, match="status 400"):
        ask(server.url, "predict", ["a"])


def test_an_error_of_something_else(ask: Ask) -> None:
    with scripted([Reply(413, b"too large")]) as server, pytest.raises(ProblemError) as caught:
        ask(server.url, "predict", ["a"])

    assert type(caught.value) is InvalidRequestError
    assert caught.value.type == "about:blank"
    assert caught.value.request_id is None
    assert str(caught.value).startswith("413 about:blank: ")


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
        assert ask(server.url, "predict", ["a"]) == []
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
