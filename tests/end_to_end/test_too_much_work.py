"""What an idle replica could not compute in time: refused in every family, by a limit told before.

The pace at the start is set, so nothing depends on how fast the machine is.
"""

from typing import Any
from unittest import mock

import httpx
import pytest

from service.metrics import EXPLICIT, FUSED, GRADIENT
from service.queue import engine
from tests.builders import MAX_LENGTH
from tests.end_to_end.routes import FOREIGN, INFER, JSON, PREDICT, Route, assert_problem, tensor
from tests.end_to_end.servers import RunningService, client_of, shared

_PACE = {FUSED: 1 / 16, EXPLICIT: 1 / 8, GRADIENT: 1 / 8}
TOKENS, ATTENTION = 672, 336  # of 42 seconds
ATTENTIONS = Route(
    "/attention", lambda texts: {"sentences": texts, "reduce": "mean"}, lambda _: (), foreign=False
)
SERIES = 'headlight_problems_total{type="too-much-work"}'
ROUTES = {"predict": PREDICT, "attention": ATTENTIONS, **FOREIGN}


# It takes itself for slow.
running = shared(
    *("--request-timeout", "60", "--max-batch-tokens", "64"),
    changes=lambda _: mock.patch.object(engine, "measure_pace", return_value=_PACE),
)


client = client_of("running")


def text_of(tokens: int) -> str:
    return "a " * (tokens - 2)


def texts_of(tokens: int) -> list[str]:
    """Texts with so many tokens together, more than 32."""
    whole = (tokens - MAX_LENGTH - 1) // MAX_LENGTH
    rest = tokens - whole * MAX_LENGTH
    return [text_of(size) for size in (*[MAX_LENGTH] * whole, rest // 2, rest - rest // 2)]


def assert_refused(response: httpx.Response, *, foreign: bool = False, **fits: int) -> None:
    assert_problem(
        response, 413, "too-much-work", says="may take at most", foreign=foreign, fits=fits
    )


@pytest.mark.parametrize("name", ROUTES)
def test_texts_at_the_limit_are_answered_and_a_token_more_is_not(
    name: str, client: httpx.Client
) -> None:
    route, most = ROUTES[name], ATTENTION if name == "attention" else TOKENS
    answer = client.post(route.path, json=route.body(texts_of(most)), headers=JSON)
    assert answer.status_code == 200, answer.text
    refused = client.post(route.path, json=route.body(texts_of(most + 1)), headers=JSON)
    assert_refused(refused, foreign=route.foreign, tokens=most)


@pytest.mark.parametrize(
    ("fields", "times"),
    [({"granularity": "sentence"}, 2), ({"truncation": "window"}, 1), ({"on_error": "item"}, 1)],
)
def test_sentences_and_windows_count(
    fields: dict[str, Any], times: int, client: httpx.Client
) -> None:
    texts = [text_of(80)] * ("truncation" in fields)
    asked = client.post("/predict", json={"sentences": [*texts, "a"], **fields}).json()
    left = TOKENS - sum(each["token_count"] for each in asked["predictions"][:-1])
    for tokens, status in ((left // times, 200), (left // times + 1, 413)):
        body = {"sentences": [*texts, *texts_of(tokens)], **fields}
        answer = client.post("/predict", json=body)
        assert answer.status_code == status, answer.text
    assert_refused(answer, tokens=TOKENS)


def test_a_request_with_less_time_may_have_less(client: httpx.Client) -> None:
    half, most = {"x-request-timeout": "30"}, TOKENS // 2
    for tokens, status in ((most, 200), (most + 1, 413)):
        answer = client.post("/predict", json={"sentences": texts_of(tokens)}, headers=half)
        assert answer.status_code == status, answer.text
    assert_refused(answer, tokens=most)
    body = tensor(texts_of(most + 1), parameters={"timeout": 30_000_000})
    assert_refused(client.post(INFER, json=body), foreign=True, tokens=most)


def test_leaving_out_has_some_of_the_time_for_the_text(client: httpx.Client) -> None:
    for words, status in ((300, 200), (400, 413)):
        body = {"sentence": "a " * words, "truncation": "window", "method": "leave_out"}
        answer = client.post("/attributions", json=body)
        assert answer.status_code == status, answer.text
    assert_refused(answer, tokens=503)  # of nearly 31.5 seconds


def test_it_is_counted_by_its_type_and_refused_for_no_reason_of_the_replica(
    running: RunningService, client: httpx.Client
) -> None:
    counted, computed = running.metric(SERIES), running.metric("headlight_texts_total")
    refused = running.refused()
    client.post("/predict", json={"sentences": texts_of(TOKENS + 1)})
    assert running.metric(SERIES) == counted + 1
    assert (running.metric("headlight_texts_total"), running.refused()) == (computed, refused)
