"""`head_mask` and `omit` on a socket: what is taken away changes the answer as it should."""

import json
from typing import Any

import httpx
import numpy as np
import pytest

from model import Head, Predictor, leave_out, switch_off
from tests.end_to_end.servers import RunningService
from tests.end_to_end.test_predict import TOLERANCE, ask, random_sentences

TEXT = "the film is superb but slow"
OFF = [{"layer": 0, "head": 1}, {"layer": 1}]
HEADS = [Head(0, 1), Head(1)]


def attend(client: httpx.Client, **fields: object) -> dict[str, Any]:
    """The answer of `POST /attention` to a request that works."""
    response = client.post("/attention", json={"sentence": TEXT, "layer": [0], **fields})
    assert response.status_code == 200, response.text
    answer: dict[str, Any] = response.json()
    return answer


def test_texts_without_heads_have_the_answers_of_the_model_itself(
    client: httpx.Client, predictor: Predictor
) -> None:
    texts = random_sentences(30, seed=31)
    found = ask(client, *texts, head_mask=OFF)
    for text, one in zip(texts, found, strict=True):
        (expected,) = predictor.predict(
            [switch_off(predictor.encode(text), HEADS, num_layers=2, num_heads=2)]
        )
        assert one["probabilities"] == pytest.approx(expected.probabilities, abs=TOLERANCE)
    plain = ask(client, *texts)
    assert ask(client, *texts, head_mask=[]) == plain
    moved = [
        one["probabilities"] != pytest.approx(other["probabilities"], abs=1e-3)
        for one, other in zip(found, plain, strict=True)
    ]
    assert sum(moved) > len(texts) // 2


def test_heads_are_off_in_windows_and_sentences_too(client: httpx.Client) -> None:
    text = "good film. " * 30
    for fields in ({"truncation": "window"}, {"granularity": "sentence"}):
        (plain,) = ask(client, text, **fields)
        (off,) = ask(client, text, **fields, head_mask=OFF)
        assert plain["score"] != off["score"]
        if "granularity" in fields:
            (alone,) = ask(client, "good film.", head_mask=OFF)
            sentences: list[dict[str, Any]] = off["sentences"]  # type: ignore[assignment]
            for sentence in sentences:
                assert sentence["probabilities"] == pytest.approx(
                    alone["probabilities"], abs=TOLERANCE
                )


def test_a_text_without_tokens_is_the_shorter_text(
    client: httpx.Client, predictor: Predictor
) -> None:
    (left,) = ask(client, TEXT, omit=[5, 6])
    (shorter,) = ask(client, "the film is superb")
    assert left["token_count"] == shorter["token_count"] == 6
    assert left["probabilities"] == pytest.approx(shorter["probabilities"], abs=TOLERANCE)

    expected = predictor.explain(leave_out(predictor.encode(TEXT, with_tokens=True), [2]))
    shown = attend(client, omit=[2])
    assert [token["text"] for token in shown["tokens"]] == [
        *("[CLS]", "the", "is", "superb", "but", "slow", "[SEP]")
    ]
    assert [token["start"] for token in shown["tokens"]][1:3] == [0, TEXT.index("is")]
    np.testing.assert_allclose(shown["attention"], expected.attention[:1], atol=1e-5)


def test_weights_and_prediction_are_of_the_network_without_the_head(
    client: httpx.Client, predictor: Predictor
) -> None:
    encoding = predictor.encode(TEXT, with_tokens=True)
    expected = predictor.explain(switch_off(encoding, HEADS, num_layers=2, num_heads=2))
    by_body = attend(client, layer=[0, 1], head_mask=OFF)
    np.testing.assert_allclose(by_body["attention"], expected.attention, atol=1e-5)
    assert by_body["prediction"]["probabilities"] == pytest.approx(
        expected.prediction.probabilities, abs=TOLERANCE
    )
    by_query = client.get(
        "/attention",
        params={"sentence": TEXT, "layer": [0, 1], "head_mask": json.dumps(OFF)},
    )
    assert by_query.json() == by_body
    several = client.post("/attention", json={"sentences": [TEXT], "layer": [1], "head_mask": OFF})
    (one,) = several.json()
    assert one["attention"] == by_body["attention"][1:]


def test_changed_texts_do_not_count_as_the_model_in_use(
    running: RunningService, client: httpx.Client
) -> None:
    def counted() -> list[str]:
        lines = running.metrics().splitlines()
        return [line for line in lines if line.startswith("headlight_answer")]

    before = counted()
    assert before
    ask(client, TEXT, head_mask=OFF)
    ask(client, TEXT, omit=[1])
    assert counted() == before
    ask(client, TEXT, head_mask=[])
    assert counted() != before
