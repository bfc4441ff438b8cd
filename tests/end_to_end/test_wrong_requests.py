"""Requests that are refused before anything is computed: which status, type and place."""

import gzip
import json
from collections.abc import Sequence
from typing import Any

import httpx
import pytest

from service.routes.wording import TEXT_FIELDS
from tests.end_to_end.kinds import EXPLANATIONS, JSON
from tests.end_to_end.problems import Loc, assert_problem

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
        b'{"sentences": ["a"',
        GOOD + GOOD,
        b"\xef\xbb\xbf\xef\xbb\xbf" + GOOD,
        GOOD.decode().encode("utf-16"),
        b'{"sentences": ["\xff"]}',
        b'{"sentences": [NaN]}',
        b'{"sentences": ' + b"[" * 100_000 + b"]" * 100_000 + b"}",
    ],
)
def test_malformed_json(client: httpx.Client, content: bytes) -> None:
    refused = client.post("/predict", content=content, headers=JSON)
    assert_problem(refused, 400, "malformed-json")


@pytest.mark.parametrize(
    "headers",
    [
        [],
        [("content-type", "text/plain")],
        [("content-type", "application/json; charset=latin-1")],
        [("content-type", "application/json")] * 2,
    ],
)
def test_other_media_types(client: httpx.Client, headers: list[tuple[str, str]]) -> None:
    response = client.post("/predict", content=GOOD, headers=headers)
    assert_problem(response, 415, "unsupported-media-type")
    assert response.headers["accept"] == "application/json"


def test_an_encoded_body(client: httpx.Client) -> None:
    headers = {**JSON, "content-encoding": "gzip"}
    response = client.post("/predict", content=gzip.compress(GOOD), headers=headers)
    assert_problem(response, 415, "unsupported-media-type")
    assert response.headers["accept-encoding"] == "identity"


# What else a body has, and values of a field that are wrong as a whole.
WRONG_VALUES: list[tuple[str, Body, dict[str, list[object]]]] = [
    ("/predict", PREDICT, {"truncation": ["both"], "on_error": [None]}),
    ("/predict", PREDICT, {"granularity": ["sentences", "", None, 1]}),
    ("/predict", PREDICT, {"abstain_below": [1.01, -0.5, "0.5", True, [0.5]]}),
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
    ("/attributions", ONE, {"label": ["fair", 0], "steps": ["32", True, 32.0]}),
    ("/attributions", {**ONE, "method": "gradient_x_input"}, {"steps": [5]}),
    ("/attributions", ONE, {"truncation": ["window"], "level": ["sentence"], "method": ["omit"]}),
    ("/attributions", {**ONE, "method": "leave_out"}, {"steps": [5], "label": ["fair"]}),
    ("/attributions", {**ONE, "method": "leave_out"}, {"truncation": ["both"], "level": ["text"]}),
    ("/importance", ONE, {"label": ["fair"], "truncation": ["window"]}),
    ("/attention/steps", STEPS, {"layer": [2, -1, [0]], "head": [2], "window": [1]}),
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
        (kind.path, kind.body([text]), [("sentence",)])
        for kind in EXPLANATIONS.values()
        for text in BAD
    ),
    ("/predict", {"sentences": ["a"] * 41}, [("sentences",)]),
    ("/predict", {"sentences": ["good", "", 1, "fine"]}, [("sentences", 1), ("sentences", 2)]),
    ("/predict", {"sentences": [10**30]}, [("sentences", 0)]),
    ("/predict", {**PREDICT, **dict.fromkeys(map(str, range(9999)))}, [()]),
    ("/predict", {**PREDICT, "Canary": 1}, [()]),
    ("/importance", {**ONE, "steps": 3}, [()]),
    ("/importance", {**ONE, "method": "gradient_x_input"}, [()]),
    ("/attention/steps", {**STEPS, "key": 1}, [()]),
    *(
        (path, {**text, **fields}, [loc])
        for path, text in (("/predict", {"sentences": [TEXT]}), ("/attention", {"sentence": TEXT}))
        for fields, loc in (
            ({"head_mask": [{"layer": 2}]}, ("head_mask", 0, "layer")),
            ({"head_mask": [{"layer": 0}, {"layer": 0, "head": 2}]}, ("head_mask", 1, "head")),
            ({"head_mask": [{"layer": 0, "heads": 1, "lyer": 1}]}, ("head_mask", 0)),
            ({"omit": [7]}, ("omit", 0)),
            ({"omit": [1, 8]}, ("omit", 1)),
            ({"omit": [1, 2, 3, 4, 5, 6]}, ("omit", 0)),
        )
    ),
    ("/attention", {**ONE, "head": [True]}, [("head", 0)]),
    ("/attention", {**ONE, "head": [0.0]}, [("head", 0)]),
    ("/attention", {"sentences": ["a", " "]}, [("sentences", 1)]),
    ("/attention", {"sentences": ["a", 3]}, [("sentences", 1)]),
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


def test_a_field_sent_twice(client: httpx.Client) -> None:
    twice = b'{"sentences": ["a"], "sentences": ["b"]}'
    refused = client.post("/predict", content=twice, headers=JSON)
    assert_problem(refused, 422, "invalid-request", ("body",))


def test_numbers_of_thousands_of_digits_are_only_wrong(client: httpx.Client) -> None:
    content = b'{"sentences": [' + b"9" * 6000 + b"]}"
    refused = client.post("/predict", content=content, headers=JSON)
    assert_problem(refused, 422, "invalid-request", ("body", "sentences", 0))


TOO_LONG: list[tuple[str, Body, Loc]] = [
    ("/predict", {"sentences": ["good", LONG]}, ("sentences", 1)),
    ("/attention", {"sentences": ["ok", LONG]}, ("sentences", 1)),
    *((kind.path, kind.body([LONG]), ("sentence",)) for kind in EXPLANATIONS.values()),
]


@pytest.mark.parametrize(("path", "body", "loc"), TOO_LONG)
def test_a_text_that_is_too_long(client: httpx.Client, path: str, body: Body, loc: Loc) -> None:
    refused = client.post(path, json={**body, "truncation": "error"})
    says = "the text has 52 tokens and the model reads at most 32"
    assert_problem(refused, 422, "text-too-long", ("body", *loc), says=says)


WRONG_QUERIES: list[tuple[str, Sequence[Loc]]] = [
    ("/attention?sentence=", [("sentence",)]),
    ("/attention?sentence=+%09%E2%80%8B", [("sentence",)]),
    ("/attention?sentence=a&foo=1", [()]),
    ("/attention?sentence=a&omit=1", [()]),
    ("/attention?sentence=a&layer=2", [("layer",)]),
    ("/attention?sentence=a&layer=-1", [("layer", 0)]),
    ("/attention?sentence=a&layer=1.0", [("layer", 0)]),
    ("/attention?sentence=a&layer=0&layer=x", [("layer", 1)]),
    ("/attention?sentence=a&layer=", [("layer", 0)]),
    ("/attention?sentence=a&layer=%C2%B2", [("layer", 0)]),
    ("/attention?sentence=a&head=7", [("head",)]),
    ("/attention?sentence=a&truncation=middle", [("truncation",)]),
    ("/attention?sentence=a&head_mask=0:1", [("head_mask",)]),
    ("/attention?sentence=a&thumbnail=9&special=no", [("special",)]),
    ("/attention?sentence=a&sentence=b", [()]),
    ("/attention?sentence=a&x=1&x=2", [()]),
    ("/attention?sentence=%ff", [()]),
    ("/attention?sentence=%ED%A0%80", [()]),
    ("/attention?sentence=a" + "&layer=0" * 1000, [()]),
]


@pytest.mark.parametrize(("query", "locs"), WRONG_QUERIES)
def test_wrong_queries(client: httpx.Client, query: str, locs: Sequence[Loc]) -> None:
    refused = client.get(query)
    assert_problem(refused, 422, "invalid-request", *(("query", *loc) for loc in locs))
    assert "Canary" not in refused.text


LIST, SINGLE, QUERY = (
    'Send {"sentences": ["…"]}: ',
    'Send {"sentence": "…"}: ',
    "Send ?sentence=…: ",
)
MISPLACED: list[tuple[str, object, str, Sequence[Loc]]] = [
    *(("/predict", sent, LIST, [()]) for sent in ([], ["Canary"], "Canary", 5, 0.5, None, True)),
    ("/predict", {}, LIST, [("sentences",)]),
    ("/predict", {"sentences": "Canary"}, LIST, [("sentences",)]),
    ("/predict", {"sentences": []}, LIST, [("sentences",)]),
    ("/predict", {"Canary": 1, "sentence": "a"}, LIST, [("sentences",), ("sentence",)]),
    ("/predict", {"sentences": ["Canary"], "text": "Canary"}, LIST, [("text",)]),
    # `inputs` may be answered in the form of another system.
    *(
        ("/predict", {name: ["Canary"]}, LIST, [("sentences",), (name,)])
        for name in TEXT_FIELDS[1:]
        if name != "inputs"
    ),
    ("/attention", {"inputs": ["Canary"]}, LIST, [("sentence",), ("inputs",)]),
    ("/attention", {"sentence": "Canary", "sentences": ["Canary"]}, LIST, [("sentence",)]),
    ("/attention", "Canary", SINGLE, [()]),
    ("/attributions", {"sentences": ["Canary"]}, SINGLE, [("sentence",), ("sentences",)]),
    *(
        (path, sent, SINGLE, locs)
        for path in ("/attention", "/attributions", "/importance")
        for sent, locs in (
            ({}, [("sentence",)]),
            ({"text": "Canary"}, [("sentence",), ("text",)]),
            ({"sentence": ["Canary"]}, [("sentence",)]),
        )
    ),
    (
        "/attention/steps",
        {"layer": 0, "head": 0, "query": 0, "sentences": ["Canary"]},
        SINGLE,
        [("sentence",), ("sentences",)],
    ),
]


@pytest.mark.parametrize(("path", "sent", "says", "locs"), MISPLACED)
def test_a_text_in_a_wrong_place_is_shown_the_right_one(
    client: httpx.Client, path: str, sent: object, says: str, locs: Sequence[Loc]
) -> None:
    refused = client.post(path, content=json.dumps(sent), headers=JSON)
    assert refused.json()["detail"].startswith(says)
    assert_problem(refused, 422, "invalid-request", *(("body", *loc) for loc in locs))
    assert "Canary" not in refused.text


def test_a_text_in_a_wrong_parameter_is_shown_the_right_one(client: httpx.Client) -> None:
    missing = ("query", "sentence")
    for query, locs in (
        ("", [missing]),
        ("?text=Canary", [missing, ("query", "text")]),
        ("?sentences=Canary", [missing, ("query", "sentences")]),
        ("?sentence=a&sentences=Canary", [("query", "sentences")]),
    ):
        refused = client.get("/attention" + query)
        assert_problem(refused, 422, "invalid-request", *locs, says=QUERY)
        assert "Canary" not in refused.text


def test_not_found(client: httpx.Client) -> None:
    for path in (
        "/nothing", "/predict/", "/attention/", "/model/", "/health/", "/health/live/",
        "/attention/steps/", "/attributions/", "/importance/", "/terms/",
        "/health/ready/", "/metrics/", "/docs/", "/openapi.json/", "/static/nothing.js",
    ):  # fmt: skip
        assert_problem(client.get(path), 404, "not-found")


@pytest.mark.parametrize(
    ("method", "path", "allowed"),
    [
        ("GET", "/predict", "POST"),
        ("HEAD", "/predict", "POST"),
        ("PUT", "/attention", "GET, POST"),
        ("PUT", "/attention/steps", "POST"),
        ("DELETE", "/attributions", "POST"),
        ("PUT", "/importance", "POST"),
        ("POST", "/model", "GET, HEAD"),
        ("POST", "/health/live", "GET, HEAD"),
        ("DELETE", "/health/ready", "GET, HEAD"),
        ("POST", "/metrics", "GET, HEAD"),
        ("OPTIONS", "/docs", "GET, HEAD"),
        ("POST", "/terms", "GET, HEAD"),
        ("POST", "/problems/timeout", "GET, HEAD"),
        ("PATCH", "/openapi.json", "GET, HEAD"),
        ("PUT", "/", "GET, HEAD, POST"),
        ("POST", "/static/page.js", "GET, HEAD"),
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
        ("/", "text/html"),
        ("/docs", "text/html"),
        ("/terms", "text/html"),
        ("/openapi.json", "application/json"),
    ],
)
def test_not_acceptable(client: httpx.Client, path: str, offered: str) -> None:
    for accept in ("image/png", f"{offered};q=0, */*", "nonsense"):
        refused = client.get(path, headers={"accept": accept})
        assert_problem(refused, 406, "not-acceptable", says=offered)
    part = f"{offered.split('/')[0]}/*;q=0.1"
    for accept in ("*/*", offered, part, f"image/png, {offered};q=0.2"):
        assert client.get(path, headers={"accept": accept}).status_code == 200


@pytest.mark.parametrize("path", ["/attention", "/problems/timeout"])
def test_other_forms_are_not_offered(client: httpx.Client, path: str) -> None:
    refused = client.get(f"{path}?sentence=ok", headers={"accept": "image/png"})
    assert_problem(refused, 406, "not-acceptable", says="application/json")
