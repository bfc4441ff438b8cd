"""`POST /predict` with good requests, and with requests of which only items are bad."""

import hashlib
import random
from pathlib import Path

import httpx
import pytest

from model import Head, Predictor, switch_off
from tests.builders import WORDS
from tests.end_to_end.routes import JSON, assert_members, predict
from tests.end_to_end.servers import RunningService
from tests.matching import near

TOLERANCE = 1e-5
OFF = [{"layer": 0, "head": 1}, {"layer": 1}]
HEADS = [Head(0, 1), Head(1)]


def random_sentences(count: int, seed: int, longest: int = 25) -> list[str]:
    """Sentences of known words, of many lengths."""
    chance = random.Random(seed)
    return [" ".join(chance.choices(WORDS, k=chance.randint(1, longest))) for _ in range(count)]


def test_an_answer_has_exactly_the_documented_form(
    client: httpx.Client, checkpoint_folder: Path
) -> None:
    response = client.post("/predict", json={"sentences": ["The plot is dull, but good."]})
    answer = response.json()
    weights = (checkpoint_folder / "model.safetensors").read_bytes()
    assert response.headers["content-type"] == "application/json"
    assert list(answer) == ["model", "predictions"]
    assert answer["model"] == {"name": "tiny", "version": hashlib.sha256(weights).hexdigest()[:12]}
    (prediction,) = answer["predictions"]
    assert list(prediction) == ["label", "score", "probabilities", "token_count", "truncated"]
    assert list(prediction["probabilities"]) == ["negative", "positive"]
    assert sum(prediction["probabilities"].values()) == pytest.approx(1.0, abs=1e-12)
    assert prediction["score"] == max(prediction["probabilities"].values())
    assert prediction["score"] == prediction["probabilities"][prediction["label"]]
    assert prediction["token_count"] == 10  # [CLS] the plot is dull , but good . [SEP]
    assert prediction["truncated"] is False


def test_a_text_has_the_same_answer_alone_and_in_any_batch(client: httpx.Client) -> None:
    sentences = random_sentences(40, seed=2)
    for sentence, served in zip(sentences, predict(client, *sentences), strict=True):
        assert near(predict(client, sentence), [served])


def test_bad_items_get_their_errors_and_the_others_their_answers(client: httpx.Client) -> None:
    body = (
        b'{"sentences": ["good film", "\\u200b\\n ", 7, "lone \\udc80 half", "'
        + b"good " * 50
        + b'", null, ["x"], "bad film"], "on_error": "item", "truncation": "error"}'
    )
    response = client.post("/predict", content=body, headers=JSON)
    assert response.status_code == 200
    first, *bad, last = response.json()["predictions"]
    assert [first["label"], last["label"]] == [
        prediction["label"] for prediction in predict(client, "good film", "bad film")
    ]
    for index, item in enumerate(bad, 1):
        assert list(item) == ["error"]
        kind = "text-too-long" if index == 4 else "invalid-request"
        assert_members(item["error"], 422, kind, ("body", "sentences", index))
    # All of them may be bad.
    items = predict(client, " ", "\t", on_error="item")
    assert [list(item) for item in items] == [["error"], ["error"]]


def test_only_predictions_below_the_threshold_lose_their_label(client: httpx.Client) -> None:
    texts = random_sentences(30, seed=11)
    plain = predict(client, *texts)
    scores = sorted({prediction["score"] for prediction in plain})
    below = scores[len(scores) // 2]  # the one with exactly this score keeps its label
    abstaining = predict(client, *texts, abstain_below=below)
    assert abstaining == [
        {**prediction, "label": prediction["label"] if prediction["score"] >= below else None}
        for prediction in plain
    ]
    assert 0 < sum(prediction["label"] is None for prediction in abstaining) < len(texts)


def test_texts_without_heads_have_the_answers_of_the_model_itself(
    client: httpx.Client, predictor: Predictor
) -> None:
    texts = random_sentences(30, seed=31)
    plain, found = predict(client, *texts), predict(client, *texts, head_mask=OFF)
    for text, one in zip(texts, found, strict=True):
        off = switch_off(predictor.encode(text), HEADS, num_layers=2, num_heads=2)
        (expected,) = predictor.predict([off])
        assert one["probabilities"] == pytest.approx(expected.probabilities, abs=TOLERANCE)
    assert predict(client, *texts, head_mask=[]) == plain
    assert found != plain


def test_heads_are_off_in_windows_and_sentences_too(client: httpx.Client) -> None:
    text = "good film. " * 30
    for fields in ({"truncation": "window"}, {"granularity": "sentence"}):
        (plain,) = predict(client, text, **fields)
        (off,) = predict(client, text, **fields, head_mask=OFF)
        assert plain["score"] != off["score"]
        (alone,) = predict(client, "good film.", head_mask=OFF)
        for sentence in off.get("sentences", []):
            assert sentence["probabilities"] == pytest.approx(alone["probabilities"], abs=TOLERANCE)


def test_changed_texts_do_not_count_as_the_model_in_use(
    running: RunningService, client: httpx.Client
) -> None:
    text = "the film is superb but slow"

    def counted() -> list[str]:
        lines = running.metrics().splitlines()
        return [line for line in lines if line.startswith("headlight_answer")]

    (left,) = predict(client, text, omit=[5, 6])
    (shorter,) = predict(client, "the film is superb")
    assert left["token_count"] == shorter["token_count"] == 6
    assert left["probabilities"] == pytest.approx(shorter["probabilities"], abs=TOLERANCE)
    before = counted()
    assert before
    predict(client, text, head_mask=OFF)
    predict(client, text, omit=[1])
    assert counted() == before
    predict(client, text, head_mask=[])
    assert counted() != before
