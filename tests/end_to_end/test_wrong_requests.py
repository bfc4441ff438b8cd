"""Requests that are refused before anything is computed: which status, type and place."""

import gzip
import json
from collections.abc import Sequence
from typing import Any

import httpx
import pytest

from tests.end_to_end.routes import EXPLANATIONS, JSON, Loc, assert_problem

GOOD = b'{"sentences": ["good"]}'
LONG = "good " * 50  # 52 tokens, of which the model reads 32
TEXT = "the film is superb but slow"  # 8 tokens
PREDICT: dict[str, Any] = {"sentences": ["a"]}
ONE: dict[str, Any] = {"sentence": "a"}
STEPS: dict[str, Any] = {"sentence": "a good film", "layer": 1, "head": 0, "query": 2}
BAD = ["\u200b\u0007 ", "a \udc80"]  # blank, and no Unicode
Body = dict[str, Any]


@pytest.mark.parametrize(
    "content",
    [
        b"",
        GOOD + GOOD,
        GOOD.decode().encode("utf-16"),
        b'{"sentences": [NaN]}',
        b'{"sentences": ' + b"[" * 100_000 + b"]" * 100_000 + b"}",
    ],
)
def test_malformed_json(client: httpx.Client, content: bytes) -> None:
    refused = client.post("/predict", content=content, headers=JSON)
    assert_problem(refused, 400, "malformed-json")


def test_other_media_types_and_encodings(client: httpx.Client) -> None:
    for headers in (
        [],
        [("content-type", "text/plain")],
        [("content-type", JSON["content-type"])] * 2,
    ):
        refused = client.post("/predict", content=GOOD, headers=headers)
        assert_problem(refused, 415, "unsupported-media-type")
        assert refused.headers["accept"] == "application/json"
    packed = {**JSON, "content-encoding": "gzip"}
    refused = client.post("/predict", content=gzip.compress(GOOD), headers=packed)
    assert_problem(refused, 415, "unsupported-media-type")
    assert refused.headers["accept-encoding"] == "identity"


# What else a body has, and values of a field that are wrong as a whole.
WRONG_VALUES: list[tuple[str, Body, dict[str, list[object]]]] = [
    ("/predict", PREDICT, {"truncation": ["both"], "on_error": [None], "granularity": ["", 1]}),
    ("/predict", PREDICT, {"abstain_below": [1.01, -0.5, "0.5", True]}),
    ("/predict", {"sentences": [TEXT, TEXT]}, {"omit": [[1]]}),
    ("/predict", {"sentences": [TEXT], "truncation": "window"}, {"omit": [[1]]}),
    ("/predict", {"sentences": [TEXT], "granularity": "sentence"}, {"omit": [[1]]}),
    ("/attention", ONE, {"layer": [0, []], "head": [[2], [10**30]], "truncation": ["windows"]}),
    ("/attention", ONE, {"reduce": ["sum"], "level": ["line"], "special": [False]}),
    ("/attention", ONE, {"format": ["png"], "dtype": ["float64"], "window": [1]}),
    ("/attention", {**ONE, "truncation": "window"}, {"window": [1, -1, "0"]}),
    ("/attention", {"sentences": [LONG, "a"], "truncation": "window"}, {"window": [1]}),
    ("/attention", {**ONE, "format": "svg"}, {"thumbnail": [9]}),
    ("/attention", ONE, {"thumbnail": [7]}),
    ("/attributions", ONE, {"label": ["fair", 0], "steps": ["32", True, 32.0, 0, 257]}),
    ("/attributions", {**ONE, "method": "gradient_x_input"}, {"steps": [5]}),
    ("/attributions", ONE, {"truncation": ["window"], "level": ["sentence"], "method": ["omit"]}),
    ("/attributions", {**ONE, "method": "leave_out"}, {"steps": [5], "label": ["fair"]}),
    ("/attributions", {**ONE, "method": "leave_out"}, {"truncation": ["both"], "level": ["text"]}),
    ("/importance", ONE, {"label": ["fair"], "truncation": ["window"]}),
    ("/attention/steps", STEPS, {"layer": [2, -1], "head": [2], "window": [1]}),
    ("/attention/steps", STEPS, {"query": [5, -1, "1"]}),
]
WRONG: list[tuple[str, Body, Sequence[Loc]]] = [
    *(
        (path, {**body, name: value}, [(name,)])
        for path, body, fields in WRONG_VALUES
        for name, values in fields.items()
        for value in values
    ),
    *(
        (route.path, route.body([text]), [("sentence",)])
        for route in EXPLANATIONS.values()
        for text in BAD
    ),
    ("/predict", {"sentences": ["a"] * 41}, [("sentences",)]),
    ("/predict", {"sentences": ["good", "", 1, "fine"]}, [("sentences", 1), ("sentences", 2)]),
    ("/predict", {**PREDICT, "Canary": 1}, [()]),
    ("/importance", {**ONE, "steps": 3}, [()]),
    ("/attention/steps", {**STEPS, "key": 1}, [()]),
    *(
        (path, {**text, **fields}, [loc])
        for path, text in (("/predict", {"sentences": [TEXT]}), ("/attention", {"sentence": TEXT}))
        for fields, loc in (
            ({"head_mask": [{"layer": 2}]}, ("head_mask", 0, "layer")),
            ({"head_mask": [{"layer": 0}, {"layer": 0, "head": 2}]}, ("head_mask", 1, "head")),
            ({"head_mask": [{"layer": 0, "heads": 1, "lyer": 1}]}, ("head_mask", 0)),
            ({"omit": [1, 8]}, ("omit", 1)),
            ({"omit": [1, 2, 3, 4, 5, 6]}, ("omit", 0)),
        )
    ),
    ("/attention", {**ONE, "head": [True]}, [("head", 0)]),
    ("/attention", {"sentences": ["a", " "]}, [("sentences", 1)]),
    ("/attention", {"sentences": [1] * 41}, [("sentences",)]),
    (
        "/attributions",
        {"sentence": " ", "label": "x", "method": "gradient_x_input", "steps": 4, "level": 1},
        [("sentence",), ("label",), ("steps",), ("level",)],
    ),
]


@pytest.mark.parametrize(("path", "body", "locs"), WRONG)
def test_wrong_bodies(client: httpx.Client, path: str, body: Body, locs: Sequence[Loc]) -> None:
    refused = client.post(path, content=json.dumps(body), headers=JSON)
    assert_problem(refused, 422, "invalid-request", *(("body", *loc) for loc in locs))
    assert "Canary" not in refused.text


def test_bodies_that_no_library_writes(client: httpx.Client) -> None:
    for content, loc in (
        (b'{"sentences": ["a"], "sentences": ["b"]}', ("body",)),
        (b'{"sentences": [' + b"9" * 6000 + b"]}", ("body", "sentences", 0)),
    ):
        refused = client.post("/predict", content=content, headers=JSON)
        assert_problem(refused, 422, "invalid-request", loc)


@pytest.mark.parametrize(
    ("path", "body", "loc"),
    [
        ("/predict", {"sentences": ["good", LONG]}, ("sentences", 1)),
        ("/attention", {"sentences": ["ok", LONG]}, ("sentences", 1)),
        *((route.path, route.body([LONG]), ("sentence",)) for route in EXPLANATIONS.values()),
    ],
)
def test_a_text_that_is_too_long(client: httpx.Client, path: str, body: Body, loc: Loc) -> None:
    refused = client.post(path, json={**body, "truncation": "error"})
    says = "the text has 52 tokens and the model reads at most 32"
    assert_problem(refused, 422, "text-too-long", ("body", *loc), says=says)


@pytest.mark.parametrize(
    ("query", "locs"),
    [
        ("", [("sentence",)]),
        ("sentence=+%09%E2%80%8B", [("sentence",)]),
        ("sentence=a&foo=1", [()]),
        ("sentence=a&omit=1", [()]),
        ("sentence=a&layer=2", [("layer",)]),
        ("sentence=a&layer=1.0", [("layer", 0)]),
        ("sentence=a&layer=0&layer=x", [("layer", 1)]),
        ("sentence=a&layer=%C2%B2", [("layer", 0)]),
        ("sentence=a&truncation=middle", [("truncation",)]),
        ("sentence=a&head_mask=0:1", [("head_mask",)]),
        ("sentence=a&thumbnail=9&special=no", [("special",)]),
        ("sentence=a&sentence=b", [()]),
        ("sentence=%ff", [()]),
        ("sentence=%ED%A0%80", [()]),
        ("sentence=a" + "&layer=0" * 1000, [()]),
        ("text=Canary", [("sentence",), ("text",)]),
        ("sentence=a&sentences=Canary", [("sentences",)]),
    ],
)
def test_wrong_queries(client: httpx.Client, query: str, locs: Sequence[Loc]) -> None:
    refused = client.get(f"/attention?{query}")
    says = "Send ?sentence=…: " if locs[-1] in (("text",), ("sentences",)) else ""
    assert_problem(refused, 422, "invalid-request", *(("query", *loc) for loc in locs), says=says)
    assert "Canary" not in refused.text


LIST, SINGLE = 'Send {"sentences": ["…"]}: ', 'Send {"sentence": "…"}: '


@pytest.mark.parametrize(
    ("path", "sent", "says", "locs"),
    [
        *(("/predict", sent, LIST, [()]) for sent in (["Canary"], "Canary", None)),
        ("/predict", {"sentences": "Canary"}, LIST, [("sentences",)]),
        ("/predict", {"sentences": []}, LIST, [("sentences",)]),
        ("/predict", {"Canary": 1, "sentence": "a"}, LIST, [("sentences",), ("sentence",)]),
        ("/predict", {"sentences": ["Canary"], "text": "Canary"}, LIST, [("text",)]),
        ("/attention", {"inputs": ["Canary"]}, LIST, [("sentence",), ("inputs",)]),
        ("/attention", {"sentence": "Canary", "sentences": ["Canary"]}, LIST, [("sentence",)]),
        ("/attention", "Canary", SINGLE, [()]),
        ("/attributions", {"sentences": ["Canary"]}, SINGLE, [("sentence",), ("sentences",)]),
        ("/importance", {"text": "Canary"}, SINGLE, [("sentence",), ("text",)]),
        ("/attention/steps", {**STEPS, "sentence": ["Canary"]}, SINGLE, [("sentence",)]),
    ],
)
def test_a_text_in_a_wrong_place_is_shown_the_right_one(
    client: httpx.Client, path: str, sent: object, says: str, locs: Sequence[Loc]
) -> None:
    refused = client.post(path, content=json.dumps(sent), headers=JSON)
    assert refused.json()["detail"].startswith(says)
    assert_problem(refused, 422, "invalid-request", *(("body", *loc) for loc in locs))
    assert "Canary" not in refused.text


@pytest.mark.parametrize("value", ["", "0", "-1", "1e3", "soon", "nan", "1,5", "5 s"])
def test_a_deadline_that_is_none_is_refused(client: httpx.Client, value: str) -> None:
    headers = {"X-Request-Timeout": value}
    refused = client.post("/predict", json=PREDICT, headers=headers)
    assert_problem(refused, 422, "invalid-request", ("header", "X-Request-Timeout"))
    assert client.get("/health/ready", headers=headers).status_code == 200


def test_not_found(client: httpx.Client) -> None:
    for path in (
        *("/nothing", "/predict/", "/attention/", "/model/", "/health/", "/health/live/"),
        *("/metrics/", "/docs/", "/openapi.json/", "/static/nothing.js"),
    ):
        assert_problem(client.get(path), 404, "not-found")


@pytest.mark.parametrize(
    ("method", "path", "allowed"),
    [
        ("GET", "/predict", "POST"),
        ("HEAD", "/predict", "POST"),
        ("PUT", "/attention", "GET, POST"),
        ("GET", "/attention/steps", "POST"),
        ("POST", "/model", "GET, HEAD"),
        ("POST", "/health/live", "GET, HEAD"),
        ("POST", "/metrics", "GET, HEAD"),
        ("OPTIONS", "/docs", "GET, HEAD"),
        ("POST", "/problems/timeout", "GET, HEAD"),
        ("PATCH", "/openapi.json", "GET, HEAD"),
        ("PUT", "/", "GET, HEAD, POST"),
        ("POST", "/static/0123456789ab/page.js", "GET, HEAD"),
    ],
)
def test_method_not_allowed(client: httpx.Client, method: str, path: str, allowed: str) -> None:
    response = client.request(method, path)
    assert response.headers["allow"] == allowed
    if method == "HEAD":
        assert response.status_code == 405
    else:
        assert_problem(response, 405, "method-not-allowed", says=allowed)


def test_a_browser_that_asks_for_another_page_names_the_setting(client: httpx.Client) -> None:
    asked = {"Origin": "https://page.example", "Access-Control-Request-Method": "POST"}
    refused = client.options("/predict", headers=asked)
    assert_problem(refused, 405, "method-not-allowed", says="HEADLIGHT_ALLOWED_ORIGINS")


@pytest.mark.parametrize(
    ("path", "offered"),
    [
        ("/model", "application/json"),
        ("/attention?sentence=ok", "application/json"),
        ("/problems/timeout", "application/json"),
        ("/docs", "text/html"),
    ],
)
def test_not_acceptable(client: httpx.Client, path: str, offered: str) -> None:
    for accept in ("image/png", "nonsense"):
        refused = client.get(path, headers={"accept": accept})
        assert_problem(refused, 406, "not-acceptable", says=offered)
    part = f"{offered.split('/')[0]}/*;q=0.1"
    for accept in ("*/*", offered, part, f"image/png, {offered};q=0.2"):
        assert client.get(path, headers={"accept": accept}).status_code == 200
