"""`limits` of `GET /model`, each reached and passed; slow readers, and too little memory."""

import json
import math
import re
import time
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from unittest import mock

import httpx
import pytest

from model.backends import threads
from model.tokenization.tokenizer import most_tokens
from service.routes.schemas import LimitsAnswer
from tests.builders import MAX_LENGTH
from tests.end_to_end.conftest import Start
from tests.end_to_end.routes import JSON, assert_problem
from tests.end_to_end.servers import RunningService, client_of, shared, wait_until
from tests.resilience.readers import slow_readers

limited = shared(
    *("--max-sentences", "3", "--max-body-bytes", "400000", "--max-attention-weights", "401"),
    *("--max-connections", "20", "--max-queue-tokens", "4096", "--request-timeout", "60.5"),
)


client = client_of("limited")


def ask(client: httpx.Client, *sentences: str, **fields: object) -> httpx.Response:
    return client.post("/predict", json={"sentences": sentences, **fields})


def attention(client: httpx.Client, tokens: int, **fields: object) -> httpx.Response:
    """Asks for the weights of one head over a text of so many tokens."""
    text = "a " * (tokens - 2)
    return client.post("/attention", json={"sentence": text, "layer": [0], "head": [0], **fields})


# What to send to reach a number: the limit itself, or what is just beyond it.
REACH: dict[str, Callable[[httpx.Client, int], httpx.Response]] = {
    "max_length": lambda client, count: ask(client, "a " * (count - 2), truncation="error"),
    "max_windows": lambda client, count: ask(
        client, "a " * most_tokens(MAX_LENGTH - 2, count), truncation="window"
    ),
    "max_sentences": lambda client, count: ask(client, *["a"] * count),
    "max_body_bytes": lambda client, count: client.post(
        "/predict", content=b'{"sentences": ["a"]}'.ljust(count), headers=JSON
    ),
    "max_query_parameters": lambda client, count: client.get(
        "/attention?sentence=a" + "&layer=0" * (count - 1)
    ),
    "max_numbers": lambda client, count: attention(client, 3, layer=[0] * count),
    "max_thumbnail": lambda client, count: attention(client, 3, thumbnail=count),
    "max_steps": lambda client, count: client.post(
        "/attributions", json={"sentence": "a", "steps": count}
    ),
}
REFUSED = {
    "max_length": (422, "text-too-long"),
    "max_windows": (422, "text-too-long"),
    "max_body_bytes": (413, "payload-too-large"),
}


def limits(client: httpx.Client) -> dict[str, int]:
    found: dict[str, int] = client.get("/model").json()["limits"]
    return found


@pytest.mark.parametrize("name", REACH)
def test_a_request_at_the_limit_is_answered_and_one_beyond_is_not(
    name: str, client: httpx.Client
) -> None:
    most = limits(client)[name]
    assert REACH[name](client, most).status_code == 200
    refused = REACH[name](client, most + 1)
    status, kind = REFUSED.get(name, (422, "invalid-request"))
    assert (refused.status_code, refused.json()["type"]) == (status, f"/problems/{kind}")


@pytest.mark.parametrize(
    ("name", "form"),
    [
        ("max_attention_weights", "json"),
        ("max_attention_weights", "npz"),
        ("max_svg_weights", "svg"),
    ],
)
def test_weights(name: str, form: str, client: httpx.Client) -> None:
    most = limits(client)[name]
    side = math.isqrt(most)
    assert attention(client, side, format=form).status_code == 200
    refused = attention(client, side + 1, format=form)
    assert_problem(refused, 413, "too-many-weights", says=f" is {most}: ask for fewer")


def test_a_head(limited: RunningService, client: httpx.Client) -> None:
    most = limits(client)["max_head_bytes"]
    # A head is read in pieces of 1,024 bytes, and counted after the first.
    for padding, line in ((most - 2048, b"HTTP/1.1 200 "), (most + 2048, b"HTTP/1.1 400 ")):
        head = b"GET /health/live HTTP/1.1\r\nHost: x\r\nConnection: close\r\n"
        answer = limited.send(head + b"X-Padding: " + b"x" * padding + b"\r\n\r\n")
        assert answer[: len(line)] == line


def test_health_is_answered_beside_more_connections_than_there_may_be(
    limited: RunningService,
) -> None:
    with ExitStack() as idle:
        for _ in range(60):  # the service may close some at once
            idle.enter_context(limited.connect())
        for path in ("/health/live", "/health/ready"):
            assert limited.get(path).status_code == 200
        assert "all connections are taken" in limited.log.read_text("utf-8")


def test_all_nodes_of_an_integral_fit_into_the_queue(client: httpx.Client) -> None:
    for steps, status in ((126, 200), (127, 413)):  # and two more of 32 tokens each
        body = {"sentence": "a " * 30, "steps": steps}
        assert client.post("/attributions", json=body).status_code == status


def test_those_that_no_single_request_reaches(client: httpx.Client) -> None:
    found = limits(client)
    assert list(found) == list(LimitsAnswer.model_fields)
    assert {name: found[name] for name in found if name not in REACH} == {
        "max_item_sentences": 1024,
        "max_head_bytes": 131_072,
        "max_values": 32_768,
        "max_attention_weights": 401,
        "max_svg_weights": 401,
        "max_sending_bytes": 100_000_000,
        "max_normalized_characters": 1_000_000,
        "max_work_tokens": 4096,
        "max_attention_tokens": 4096,
        "max_work_steps": 126,
        "max_queue_tokens": 4096,
        "max_connections": 20,
        "request_timeout": 60.5,
        "rate_limit": None,
        "token_quota": None,
    }
    assert (found["max_sentences"], found["max_body_bytes"]) == (3, 400_000)


def test_the_largest_answer_that_may_be_made(start: Start, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("service.app.SENDING_BYTES", 20_000)
    options = ("--max-attention-weights", "400", "--max-sending-bytes", "1")
    with start(*options) as running, running.client() as client:
        # A constant now, whose name is accepted for one release.
        assert '"settings":["--max-sending-bytes"]' in running.log.read_text("utf-8")
        refused = client.get("/attention?sentence=a")
        says = f"while it is made; the limit is {limits(client)['max_sending_bytes']}:"
        assert_problem(refused, 413, "too-many-weights", says=says)


SMALL = {"sentences": ["good"]}
# The tiny model answers this with 13 MB, which is more than the kernel holds.
LARGE = {"sentences": ["good " * 30] * 256}
# However the path of a route is spelled, the guard of memory sees it; others are no routes.
SPELLINGS = {
    **dict.fromkeys(("/predict?a", "/predict#a", "/%70redict", "/%70%72edic%74?%3f"), 503),
    **dict.fromkeys(("http://other/predict", "HTTP://x:1/%70redict"), 503),
    **dict.fromkeys(("/predict%0A", "/%61ttention", "/v2/models/tiny/%69nfer"), 503),
    **dict.fromkeys(("//predict", "/predict/", "/./predict", "/a/../predict", "/PREDICT"), 404),
    **dict.fromkeys(("/%2570redict", "/predict;a", "/predict%00", "http://x//predict"), 404),
}


def test_slow_readers_take_no_more_than_their_share(
    start: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    most = 70_000_000
    monkeypatch.setattr("service.app.SENDING_BYTES", most)
    with start("--request-timeout", "600") as running, running.client() as answers:
        whole = answers.post("/attention", json=LARGE)
        assert whole.status_code == 200
        assert 12_000_000 < len(whole.content) < 14_000_000
        wait_until(lambda: running.metric("headlight_sending_bytes") == 0)
        with slow_readers(running.port, 16, rate=1, body=LARGE) as statuses:
            wait_until(lambda: statuses.total() == 16)
            assert set(statuses) == {"200", "503"}
            assert 0 < running.metric("headlight_sending_bytes") <= most
            assert answers.post("/predict", json=SMALL).status_code == 200
            assert answers.get("/openapi.json").status_code == 200
            assert running.refused() == {"sending": statuses["503"]}
        # They have gone, and others can ask again.
        wait_until(lambda: running.metric("headlight_sending_bytes") == 0)
        assert answers.post("/attention", json=LARGE).status_code == 200
        assert running.errors() == []


def test_a_full_memory_refuses_the_large_first_and_never_health(
    start: Start, tmp_path: Path
) -> None:
    (tmp_path / "own").write_text("0::/app\n", "ascii")
    group = tmp_path / "app"
    group.mkdir()
    (group / "memory.max").write_text("1000000", "ascii")
    (group / "memory.stat").write_text("inactive_file 100000", "ascii")
    (group / "memory.current").write_text("0", "ascii")
    changes = mock.patch.multiple(threads, _ROOT=tmp_path, _OWN=tmp_path / "own")
    large_body = json.dumps(SMALL).ljust(70_000)
    small_body = json.dumps(SMALL).encode()

    def fill(share: float) -> list[int]:
        (group / "memory.current").write_text(str(round(share * 1_000_000) + 100_000), "ascii")
        time.sleep(0.3)  # it is read four times a second
        asked = [
            client.get("/health/ready"),
            client.post("/predict", json=SMALL),
            client.post("/predict", content=large_body, headers=JSON),
            client.post("/predict", content=iter([small_body]), headers=JSON),  # of any length
            client.post("/predict", content=small_body, headers={**JSON, "content-encoding": "x"}),
            client.post("/attention", json=LARGE),
        ]
        return [response.status_code for response in asked]

    with start(changes=changes) as running, running.client() as client:
        assert fill(0.9) == [200, 200, 200, 200, 415, 200]
        assert fill(0.901) == [200, 200, 503, 503, 503, 503]
        assert fill(0.95) == [200, 200, 503, 503, 503, 503]
        assert fill(0.96) == [200, 503, 503, 503, 503, 503]
        refused = client.post("/predict", json=SMALL)
        assert_problem(refused, 503, "overloaded", says="96% of the memory is in use")
        assert refused.headers["retry-after"] == "2"
        assert running.refused() == {"memory": 14}
        for target, status in SPELLINGS.items():
            answer = running.send(
                b"POST %b HTTP/1.1\r\nHost: x\r\nContent-Length: 0\r\n"
                b"Connection: close\r\n\r\n" % target.encode()
            )
            assert (target, int(answer[9:12])) == (target, status)
        # One that waited behind another is not seen by its head.
        asked = running.send(
            b"GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n"
            b"GET /attention?sentence=good HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"
        )
        assert re.findall(rb"HTTP/1.1 (\d+)", asked) == [b"200", b"503"]
        assert running.errors() == []
