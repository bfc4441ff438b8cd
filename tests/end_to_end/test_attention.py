"""Attention, its views, and several sentences at once: `GET /attention` and `POST /attention`."""

from itertools import product
from typing import Any

import httpx
import numpy as np
import pytest

from model.explain.views import Level, Reduce, reduce_weights
from model.tokenization.words import Words
from tests.end_to_end.problems import assert_problem
from tests.end_to_end.servers import RunningService


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


def test_layers_and_heads_are_answered_in_order_and_once(client: httpx.Client) -> None:
    whole = np.array(get(client, "sentence=not+bad")["attention"])
    some = get(client, "sentence=not+bad&layer=1&layer=0&layer=1&head=1&head=1")
    assert (some["layers"], some["heads"]) == ([0, 1], [1])
    assert np.array(some["attention"]) == pytest.approx(whole[:, 1:], abs=1e-7)


TEXT = "not bad, ok"
# [CLS] not bad , o ##k [SEP]
GROUPS = Words((), ((0,), (1,), (2, 3), (4, 5), (6,)))
REDUCES: tuple[Reduce, ...] = ("none", "mean", "max", "rollout")
LEVELS: tuple[Level, ...] = ("token", "word")


def show(client: httpx.Client, **fields: object) -> Any:  # noqa: ANN401 - an object or a list
    """The answer to a body that works."""
    response = client.post("/attention", json=fields)
    assert response.status_code == 200, response.text
    return response.json()


@pytest.mark.parametrize(("reduce", "level"), list(product(REDUCES, LEVELS)))
def test_a_view_is_made_of_the_raw_weights(
    client: httpx.Client, reduce: Reduce, level: Level
) -> None:
    raw = show(client, sentence=TEXT)
    answer = show(client, sentence=TEXT, reduce=reduce, level=level)
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
    raw = np.array(show(client, sentence=TEXT)["attention"], np.float32)
    answer = show(client, sentence=TEXT, layer=[1], head=[1], reduce="rollout")
    expected = reduce_weights(raw[1:, 1:], reduce="rollout", words=None)
    np.testing.assert_allclose(answer["attention"], expected, atol=3e-7)
    assert (answer["layers"], answer["heads"]) == ([1], [1])
    queried = client.get(f"/attention?sentence={TEXT}&layer=1&head=1&reduce=rollout&level=token")
    assert queried.json() == answer


def test_the_limit_is_of_what_is_answered(client: httpx.Client) -> None:
    twelve = "a " * 12  # 14 tokens: 2 x 196 weights of two layers
    assert np.shape(show(client, sentence=twelve, reduce="mean")["attention"]) == (2, 1, 14, 14)
    assert_problem(
        client.post("/attention", json={"sentence": "a " * 19, "reduce": "rollout"}),
        413,
        "too-many-weights",
    )
    word = "ok" * 12  # a word of many tokens
    assert len(show(client, sentence=word, level="word")["tokens"]) == 3


def test_several_sentences_are_answered_as_each_alone(
    running: RunningService, client: httpx.Client
) -> None:
    texts = ["good", "not bad", "ok"]
    before = running.metric("headlight_texts_total")
    answers = show(client, sentences=texts, layer=[1], level="word")
    assert running.metric("headlight_texts_total") == before + 3
    assert len(answers) == 3
    for answer, text in zip(answers, texts, strict=True):
        alone = show(client, sentence=text, layer=[1], level="word")
        assert answer["tokens"] == alone["tokens"]
        assert answer["view"] == "word"
        np.testing.assert_allclose(answer["attention"], alone["attention"], atol=1e-6)
        assert answer["prediction"]["probabilities"] == pytest.approx(
            alone["prediction"]["probabilities"], abs=1e-5
        )
    assert len(show(client, sentences=["good"])) == 1
