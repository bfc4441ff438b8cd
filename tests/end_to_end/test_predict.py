"""`POST /predict` with good requests, and with requests of which only items are bad."""

import hashlib
import random
from pathlib import Path

import httpx
import pytest

from model import Predictor
from tests.builders import MAX_LENGTH, WORDS
from tests.end_to_end.problems import assert_members

TOLERANCE = 1e-5


def random_sentences(count: int, seed: int, longest: int = 25) -> list[str]:
    """Sentences of known words, of many lengths."""
    chance = random.Random(seed)
    return [" ".join(chance.choices(WORDS, k=chance.randint(1, longest))) for _ in range(count)]


def ask(client: httpx.Client, *sentences: object, **fields: object) -> list[dict[str, object]]:
    """The predictions of a request that works."""
    response = client.post("/predict", json={"sentences": sentences, **fields})
    assert response.status_code == 200, response.text
    predictions: list[dict[str, object]] = response.json()["predictions"]
    return predictions


def test_an_answer_has_exactly_the_documented_form(
    client: httpx.Client, checkpoint_folder: Path
) -> None:
    response = client.post("/predict", json={"sentences": ["The plot is dull, but good."]})
    answer = response.json()
    weights = (checkpoint_folder / "model.safetensors").read_bytes()
    assert response.headers["content-type"] == "application/json"
    assert list(answer) == ["model", "predictions"]
    assert answer["model"] == {
        "name": "tiny",
        "version": hashlib.sha256(weights).hexdigest()[:12],
    }
    (prediction,) = answer["predictions"]
    assert list(prediction) == ["label", "score", "probabilities", "token_count", "truncated"]
    assert list(prediction["probabilities"]) == ["negative", "positive"]
    assert sum(prediction["probabilities"].values()) == pytest.approx(1.0, abs=1e-12)
    assert prediction["score"] == max(prediction["probabilities"].values())
    assert prediction["score"] == prediction["probabilities"][prediction["label"]]
    assert prediction["token_count"] == 10  # [CLS] the plot is dull , but good . [SEP]
    assert prediction["truncated"] is False


def test_answers_are_those_of_the_model_itself(client: httpx.Client, predictor: Predictor) -> None:
    sentences = random_sentences(20, seed=1)
    for sentence, served in zip(sentences, ask(client, *sentences), strict=True):
        (expected,) = predictor.predict([predictor.encode(sentence)])
        assert served["label"] == expected.label
        assert served["probabilities"] == pytest.approx(expected.probabilities, abs=TOLERANCE)


def test_a_sentence_gets_the_same_answer_alone_and_in_any_batch(client: httpx.Client) -> None:
    sentences = random_sentences(40, seed=2)
    together = ask(client, *sentences)
    for sentence, among_others in zip(sentences, together, strict=True):
        (alone,) = ask(client, sentence)
        assert alone["probabilities"] == pytest.approx(among_others["probabilities"], abs=TOLERANCE)
        assert alone["token_count"] == among_others["token_count"]


def test_a_long_text_is_cut_on_the_side_that_was_asked_for(client: httpx.Client) -> None:
    words = ["good"] * 40 + ["bad"] * 40
    room = MAX_LENGTH - 2
    for fields, kept in (
        ({}, words[:room]),
        ({"truncation": "right"}, words[:room]),
        ({"truncation": "left"}, words[-room:]),
    ):
        (cut,) = ask(client, " ".join(words), **fields)
        (whole,) = ask(client, " ".join(kept))
        assert (cut["token_count"], cut["truncated"]) == (MAX_LENGTH, True)
        assert (whole["token_count"], whole["truncated"]) == (MAX_LENGTH, False)
        assert cut["probabilities"] == pytest.approx(whole["probabilities"], abs=TOLERANCE)


def test_bad_items_get_their_errors_and_the_others_their_answers(client: httpx.Client) -> None:
    body = (
        b'{"sentences": ["good film", "\\u200b\\n ", 7, "lone \\udc80 half", "'
        + b"good " * 50
        + b'", null, ["x"], "bad film"], "on_error": "item", "truncation": "error"}'
    )
    response = client.post("/predict", content=body, headers={"content-type": "application/json"})
    assert response.status_code == 200
    first, blank, number, surrogate, long, null, nested, last = response.json()["predictions"]
    assert [first["label"], last["label"]] == [
        prediction["label"] for prediction in ask(client, "good film", "bad film")
    ]
    for index, item, kind in (
        (1, blank, "invalid-request"),
        (2, number, "invalid-request"),
        (3, surrogate, "invalid-request"),
        (4, long, "text-too-long"),
        (5, null, "invalid-request"),
        (6, nested, "invalid-request"),
    ):
        assert list(item) == ["error"]
        assert_members(item["error"], 422, kind, ("body", "sentences", index))


def test_all_items_may_be_bad(client: httpx.Client) -> None:
    predictions = ask(client, " ", "\t", on_error="item")
    assert [list(item) for item in predictions] == [["error"], ["error"]]


UNSURE = random_sentences(30, seed=11)


def test_only_predictions_below_the_threshold_lose_their_label(client: httpx.Client) -> None:
    plain = client.post("/predict", json={"sentences": UNSURE}).json()["predictions"]
    scores = sorted({prediction["score"] for prediction in plain})
    below = scores[len(scores) // 2]  # the one with exactly this score keeps its label
    body = {"sentences": UNSURE, "abstain_below": below}
    abstaining = client.post("/predict", json=body).json()["predictions"]
    expected = [
        {**prediction, "label": prediction["label"] if prediction["score"] >= below else None}
        for prediction in plain
    ]
    assert abstaining == expected
    assert [list(prediction) for prediction in abstaining] == [list(plain[0])] * len(UNSURE)
    assert 0 < sum(prediction["label"] is None for prediction in abstaining) < len(UNSURE)
