"""`GET /attention` and `POST /attention`."""

import json

import httpx
import numpy as np
import pytest

from tests.end_to_end.problems import assert_problem, error
from tests.end_to_end.servers import RunningService

JSON = {"content-type": "application/json"}


def get(client: httpx.Client, query: str) -> dict[str, object]:
    """The answer to a query string that works."""
    response = client.get(f"/attention?{query}")
    assert response.status_code == 200, response.text
    answer: dict[str, object] = response.json()
    return answer


def test_an_answer_has_exactly_the_documented_form(client: httpx.Client) -> None:
    answer = get(client, "sentence=A+good%20film\U0001f600s,%20ok")
    predicted = client.post("/predict", json={"sentences": ["A good film\U0001f600s, ok"]}).json()
    assert list(answer) == ["model", "prediction", "tokens", "layers", "heads", "attention"]
    assert answer["model"] == predicted["model"]
    served, expected = answer["prediction"], predicted["predictions"][0]
    assert isinstance(served, dict)
    assert list(served) == list(expected)
    assert served["probabilities"] == pytest.approx(expected["probabilities"], abs=1e-4)
    assert answer["layers"] == [0, 1]
    assert answer["heads"] == [0, 1]
    assert answer["tokens"] == [
        {"text": text, "start": start, "end": end, "special": word is None, "word": word}
        for text, start, end, word in (
            ("[CLS]", 0, 0, None),
            ("a", 0, 1, 0),
            ("good", 2, 6, 1),
            ("[UNK]", 7, 13, 2),  # the face belongs to the word that it stands in
            (",", 13, 14, 2),
            ("o", 15, 16, 3),
            ("##k", 16, 17, 3),
            ("[SEP]", 0, 0, None),
        )
    ]
    weights = np.array(answer["attention"], np.float64)
    assert weights.shape == (2, 2, 8, 8)
    assert np.abs(weights.sum(axis=-1) - 1).max() <= 1e-5
    assert weights.min() >= 0


def test_get_and_post_agree(client: httpx.Client) -> None:
    asked = get(client, "sentence=not+bad&layer=1&head=0&truncation=left")
    posted = client.post(
        "/attention",
        json={"sentence": "not bad", "layer": [1], "head": [0], "truncation": "left"},
    )
    assert posted.status_code == 200
    assert posted.json() == asked


def test_layers_and_heads_are_answered_in_order_and_once(client: httpx.Client) -> None:
    whole = np.array(get(client, "sentence=not+bad")["attention"])
    some = get(client, "sentence=not+bad&layer=1&layer=0&layer=1&head=1&head=1")
    assert (some["layers"], some["heads"]) == ([0, 1], [1])
    assert np.array(some["attention"]) == pytest.approx(whole[:, 1:], abs=1e-7)


def test_the_limit_of_weights_is_exact(running: RunningService, client: httpx.Client) -> None:
    eight, nine = "a " * 8, "a " * 9  # 10 and 11 tokens: 4 x 100 and 4 x 121 weights
    assert get(client, f"sentence={eight}")["layers"] == [0, 1]
    computed = running.metric("headlight_texts_total")
    response = client.post("/attention", json={"sentence": nine})
    assert_problem(
        response,
        413,
        "too-many-weights",
        "The attention weights are too many",
        "2 layers of 2 heads over 11 tokens are 484 weights; the limit is 400: ask for fewer "
        "layers or heads, or for a shorter text.",
    )
    assert running.metric("headlight_texts_total") == computed
    assert get(client, f"sentence={nine}&layer=0")["layers"] == [0]


def test_truncation(client: httpx.Client) -> None:
    long = "good " * 50
    response = client.get(f"/attention?sentence={long}&truncation=error")
    message = (
        "the text has 52 tokens and the model reads at most 32: shorten it, or set truncation "
        "to right or left"
    )
    assert_problem(
        response,
        422,
        "text-too-long",
        "The text is too long",
        f"sentence: {message}.",
        errors=[error("query", "sentence", msg=message)],
    )


def test_a_long_text_keeps_its_offsets(client: httpx.Client) -> None:
    text = "\U0001f600" * 5000 + " good film"
    body = {"sentence": text, "layer": [0], "head": [0]}
    tokens = client.post("/attention", json=body).json()["tokens"]
    assert [(token["text"], token["start"], token["end"]) for token in tokens[1:-1]] == [
        ("[UNK]", 0, 5000),
        ("good", 5001, 5005),
        ("film", 5006, 5010),
    ]


BLANK = (
    "the text is blank: send at least one character that is not white space, a control or a "
    "format character"
)
HALF = (
    "the text is not valid Unicode: lone surrogate at position 2; send a whole surrogate pair or "
    "leave it out"
)
OPTIONS = (
    "layer, head, truncation, window, reduce, level, format, dtype, thumbnail, special, head_mask"
)
KNOWN = f"an unknown parameter is given; known are sentence, {OPTIONS}"
LAYERS = "the model has layers 0 to 1"
NUMBER = "must be a whole number"


@pytest.mark.parametrize(
    ("query", "loc", "message"),
    [
        ("sentence=", ["query", "sentence"], BLANK),
        ("sentence=+%09%E2%80%8B", ["query", "sentence"], BLANK),
        ("sentence=a&foo=1", ["query"], KNOWN),
        ("sentence=a&layer=2", ["query", "layer"], LAYERS),
        ("sentence=a&layer=-1", ["query", "layer", 0], NUMBER),
        ("sentence=a&layer=1.0", ["query", "layer", 0], NUMBER),
        ("sentence=a&layer=0&layer=x", ["query", "layer", 1], NUMBER),
        ("sentence=a&layer=", ["query", "layer", 0], NUMBER),
        ("sentence=a&layer=%C2%B2", ["query", "layer", 0], NUMBER),
        ("sentence=a&head=7", ["query", "head"], "the model has heads 0 to 1"),
        (
            "sentence=a&truncation=middle",
            ["query", "truncation"],
            "must be 'right', 'left', 'error' or 'window'",
        ),
    ],
)
def test_wrong_queries(
    client: httpx.Client, query: str, loc: list[str | int], message: str
) -> None:
    where = ".".join(map(str, loc))
    assert_problem(
        client.get(f"/attention?{query}"),
        422,
        "invalid-request",
        "The request is not valid",
        f"{where}: {message}.",
        errors=[error(*loc, msg=message)],
    )


@pytest.mark.parametrize(
    ("query", "message"),
    [
        ("sentence=a&sentence=b", "a parameter is given more than once; give each once"),
        ("sentence=a&x=1&x=2", "a parameter is given more than once; give each once"),
        ("sentence=%ff", "the query is not percent-encoded UTF-8"),
        ("sentence=%ED%A0%80", "the query is not percent-encoded UTF-8"),
        ("sentence=a" + "&layer=0" * 1000, "there are more than 1000 parameters"),
    ],
)
def test_queries_that_cannot_be_read(client: httpx.Client, query: str, message: str) -> None:
    assert_problem(
        client.get(f"/attention?{query}"),
        422,
        "invalid-request",
        "The request is not valid",
        f"query: {message}.",
        errors=[error("query", msg=message)],
    )


@pytest.mark.parametrize(
    ("body", "loc", "message"),
    [
        ({"sentence": "\u200b\u0007 "}, ["body", "sentence"], BLANK),
        ({"sentence": "a \udc80"}, ["body", "sentence"], HALF),
        ({"sentence": "a", "layer": 0}, ["body", "layer"], "must be a list, got a number"),
        (
            {"sentence": "a", "layer": []},
            ["body", "layer"],
            "must have at least 1 item, got 0",
        ),
        ({"sentence": "a", "head": [True]}, ["body", "head", 0], f"{NUMBER}, got true"),
        ({"sentence": "a", "head": [0.0]}, ["body", "head", 0], f"{NUMBER}, got a decimal number"),
        ({"sentence": "a", "head": [2]}, ["body", "head"], "the model has heads 0 to 1"),
        ({"sentence": "a", "head": [10**30]}, ["body", "head"], "the model has heads 0 to 1"),
    ],
)
def test_wrong_bodies(
    client: httpx.Client, body: dict[str, object], loc: list[str | int], message: str
) -> None:
    where = ".".join(map(str, loc))
    assert_problem(
        client.post("/attention", content=json.dumps(body), headers=JSON),
        422,
        "invalid-request",
        "The request is not valid",
        f"{where}: {message}.",
        errors=[error(*loc, msg=message)],
    )
