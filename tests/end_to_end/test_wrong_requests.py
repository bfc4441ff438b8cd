"""Requests that are refused before anything is computed: which status, type and place."""

import json
from collections.abc import Sequence
from typing import Any

import httpx
import pytest

from tests.end_to_end.routes import EXPLANATIONS, JSON, Loc, assert_problem

LONG = "good " * 50  # 52 tokens, of which the model reads 32
TEXT = "the film is superb but slow"  # 8 tokens
PREDICT: dict[str, Any] = {"sentences": ["a"]}
ONE: dict[str, Any] = {"sentence": "a"}
STEPS: dict[str, Any] = {"sentence": "a good film", "layer": 1, "head": 0, "query": 2}
BAD = ["\u200b\u0007 ", "a \udc80"]  # blank, and no Unicode
Body = dict[str, Any]


# What else a body has, and values of a field that are wrong as a whole.
WRONG_VALUES: list[tuple[str, Body, dict[str, list[object]]]] = [
    ("/predict", PREDICT, {"abstain_below": [1.01, -0.5]}),
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
    ("/attributions", ONE, {"label": ["fair", 0], "steps": [0, 257]}),
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
        ("sentence=a&foo=1", [()]),
        ("sentence=a&omit=1", [()]),
        ("sentence=a&layer=2", [("layer",)]),
        ("sentence=a&layer=0&layer=x", [("layer", 1)]),
        ("sentence=a&head_mask=0:1", [("head_mask",)]),
        ("sentence=a&thumbnail=9&special=no", [("special",)]),
        ("sentence=a&sentence=b", [()]),
        ("sentence=%ff", [()]),
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


@pytest.mark.parametrize("value", ["", "0", "1e3", "nan", "1,5"])
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
        ("PUT", "/attention", "GET, POST"),
        ("GET", "/attention/steps", "POST"),
        ("POST", "/model", "GET, HEAD"),
        ("POST", "/problems/timeout", "GET, HEAD"),
        ("PUT", "/", "GET, HEAD, POST"),
        ("POST", "/static/0123456789ab/page.js", "GET, HEAD"),
    ],
)
def test_method_not_allowed(client: httpx.Client, method: str, path: str, allowed: str) -> None:
    response = client.request(method, path)
    assert response.headers["allow"] == allowed
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
    assert client.get(path, headers={"accept": f"image/png, {offered};q=0.2"}).status_code == 200
