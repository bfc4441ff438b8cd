"""Views of attention, and several sentences at once, over HTTP."""

from itertools import product
from typing import Any

import httpx
import numpy as np
import pytest

from model.explain.views import Level, Reduce, reduce_weights
from model.tokenization.words import Words
from tests.end_to_end.problems import assert_problem, error
from tests.end_to_end.servers import RunningService

TEXT = "not bad, ok"
# [CLS] not bad , o ##k [SEP]
GROUPS = Words((), ((0,), (1,), (2, 3), (4, 5), (6,)))
REDUCES: tuple[Reduce, ...] = ("none", "mean", "max", "rollout")
LEVELS: tuple[Level, ...] = ("token", "word")


def ask(client: httpx.Client, **fields: object) -> Any:  # noqa: ANN401 - an object or a list
    """The answer to a body that works."""
    response = client.post("/attention", json=fields)
    assert response.status_code == 200, response.text
    return response.json()


@pytest.mark.parametrize(("reduce", "level"), list(product(REDUCES, LEVELS)))
def test_a_view_is_made_of_the_raw_weights(
    client: httpx.Client, reduce: Reduce, level: Level
) -> None:
    raw = ask(client, sentence=TEXT)
    answer = ask(client, sentence=TEXT, reduce=reduce, level=level)
    expected = reduce_weights(
        np.array(raw["attention"], np.float32),
        reduce=reduce,
        words=GROUPS if level == "word" else None,
    )
    assert np.array(answer["attention"]).shape == expected.shape
    np.testing.assert_allclose(answer["attention"], expected, atol=3e-7)
    assert (answer["layers"], answer["heads"]) == ([0, 1], [0, 1])
    assert answer["prediction"] == raw["prediction"]
    names = [name for name in (reduce, level) if name not in ("none", "token")]
    assert answer.get("view") == ("+".join(names) or None)


def test_a_view_is_of_the_chosen_layers_and_heads(client: httpx.Client) -> None:
    raw = np.array(ask(client, sentence=TEXT)["attention"], np.float32)
    answer = ask(client, sentence=TEXT, layer=[1], head=[1], reduce="rollout")
    expected = reduce_weights(raw[1:, 1:], reduce="rollout", words=None)
    np.testing.assert_allclose(answer["attention"], expected, atol=3e-7)
    assert (answer["layers"], answer["heads"]) == ([1], [1])
    queried = client.get(f"/attention?sentence={TEXT}&layer=1&head=1&reduce=rollout&level=token")
    assert queried.json() == answer


def test_words_stand_for_rows_and_columns(client: httpx.Client) -> None:
    tokens = ask(client, sentence=" not  bad, ok", level="word")["tokens"]
    assert tokens == [
        {"text": text, "start": start, "end": end, "special": word is None, "word": word}
        for text, start, end, word in (
            ("[CLS]", 0, 0, None),
            ("not", 1, 4, 0),
            ("bad,", 6, 10, 1),
            ("ok", 11, 13, 2),
            ("[SEP]", 0, 0, None),
        )
    ]


def test_the_limit_is_of_what_is_answered(client: httpx.Client) -> None:
    twelve = "a " * 12  # 14 tokens: 2 x 196 weights of two layers
    assert np.shape(ask(client, sentence=twelve, reduce="mean")["attention"]) == (2, 1, 14, 14)
    assert_problem(
        client.post("/attention", json={"sentence": "a " * 19, "reduce": "rollout"}),
        413,
        "too-many-weights",
        "The attention weights are too many",
        "1 layer of 1 head over 21 tokens are 441 weights; the limit is 400: ask for fewer layers "
        "or heads, or for a shorter text.",
    )
    word = "ok" * 12  # a word of many tokens
    assert len(ask(client, sentence=word, level="word")["tokens"]) == 3


def test_several_sentences_are_answered_as_each_alone(
    running: RunningService, client: httpx.Client
) -> None:
    texts = ["good", "not bad", "ok"]
    before = running.metric("headlight_texts_total")
    answers = ask(client, sentences=texts, layer=[1], level="word")
    assert running.metric("headlight_texts_total") == before + 3
    assert len(answers) == 3
    for answer, text in zip(answers, texts, strict=True):
        alone = ask(client, sentence=text, layer=[1], level="word")
        assert answer["tokens"] == alone["tokens"]
        assert answer["view"] == "word"
        np.testing.assert_allclose(answer["attention"], alone["attention"], atol=1e-6)
        assert answer["prediction"]["probabilities"] == pytest.approx(
            alone["prediction"]["probabilities"], abs=1e-5
        )
    assert len(ask(client, sentences=["good"])) == 1


def test_the_limit_is_of_all_sentences_together(
    running: RunningService, client: httpx.Client
) -> None:
    computed = running.metric("headlight_texts_total")
    assert_problem(
        client.post("/attention", json={"sentences": ["a " * 5, "a " * 6]}),
        413,
        "too-many-weights",
        "The attention weights are too many",
        "2 layers of 2 heads over 2 sentences are 452 weights; the limit is 400: ask for fewer "
        "layers or heads, or for a shorter text.",
    )
    assert running.metric("headlight_texts_total") == computed


BLANK = (
    "the text is blank: send at least one character that is not white space, a control or a "
    "format character"
)


@pytest.mark.parametrize(
    ("body", "loc", "message"),
    [
        ({"sentences": ["a", " "]}, ["body", "sentences", 1], BLANK),
        ({"sentences": ["a", 3]}, ["body", "sentences", 1], "must be a string, got a number"),
        (
            {"sentences": [1] * 41},
            ["body", "sentences"],
            "at most 40 sentences are taken at once, got 41",
        ),
        (
            {"sentence": "a", "reduce": "sum"},
            ["body", "reduce"],
            "must be 'none', 'mean', 'max' or 'rollout'",
        ),
        (
            {"sentence": "a", "level": "line"},
            ["body", "level"],
            "must be 'token' or 'word'",
        ),
        (
            {"sentence": "a", "format": "png"},
            ["body", "format"],
            "must be 'json', 'npz', 'csv' or 'svg'",
        ),
        (
            {"sentence": "a", "dtype": "float64"},
            ["body", "dtype"],
            "must be 'float32' or 'float16'",
        ),
    ],
)
def test_wrong_bodies(
    client: httpx.Client, body: dict[str, object], loc: list[str | int], message: str
) -> None:
    assert_problem(
        client.post("/attention", json=body),
        422,
        "invalid-request",
        "The request is not valid",
        f"{'.'.join(map(str, loc))}: {message}.",
        errors=[error(*loc, msg=message)],
    )


def test_one_of_several_that_is_too_long_is_named(client: httpx.Client) -> None:
    body = {"sentences": ["ok", "good " * 50], "truncation": "error"}
    message = (
        "the text has 52 tokens and the model reads at most 32: shorten it, or set truncation "
        "to right or left"
    )
    assert_problem(
        client.post("/attention", json=body),
        422,
        "text-too-long",
        "The text is too long",
        f"sentences[1]: {message}.",
        errors=[error("body", "sentences", 1, msg=message)],
    )


def test_several_are_not_taken_from_a_url(client: httpx.Client) -> None:
    response = client.get("/attention?sentence=a&sentences=b")
    assert response.status_code == 422
    assert response.json()["detail"] == (
        'Send ?sentence=…: leave out "sentences", because "sentence" is given too.'
    )
