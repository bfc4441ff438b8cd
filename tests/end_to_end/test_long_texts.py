"""Long texts: read whole in windows, and sentence by sentence."""

import io
from dataclasses import asdict
from typing import Any

import httpx
import numpy as np
import pytest

from model import Predictor
from model.text_model import TextModel
from tests.builders import WORDS
from tests.end_to_end.conftest import Start
from tests.end_to_end.routes import assert_members, assert_problem, post, predict
from tests.end_to_end.servers import client_of, shared
from tests.end_to_end.test_predict import TOLERANCE, random_sentences
from tests.matching import near

LONG = random_sentences(1, seed=21, longest=1)[0] + " " + " ".join(WORDS * 4)
MEMBERS = ["label", "score", "probabilities", "token_count", "truncated"]
WINDOWED = [*MEMBERS, "windows"]
Prediction = dict[str, Any]


def assert_same(one: Prediction, other: Prediction) -> None:
    """Two answers are those of one text."""
    for member in ("label", "token_count", "truncated"):
        assert one[member] == other[member]
    assert one["probabilities"] == pytest.approx(other["probabilities"], abs=TOLERANCE)
    assert one["score"] == max(one["probabilities"].values())


def test_texts_have_the_answers_of_the_package(client: httpx.Client, predictor: Predictor) -> None:
    texts = [LONG, "good " * 40 + "bad " * 40, *random_sentences(40, seed=22)]
    for truncation in ("right", "left", "window"):
        expected = TextModel(predictor).predict(texts, truncation=truncation)
        windows = [{"windows": each.windows} if truncation == "window" else {} for each in expected]
        found = predict(client, *texts[:30], truncation=truncation)
        found += predict(client, *texts[30:], truncation=truncation)
        for one, other, counted in zip(found, expected, windows, strict=True):
            assert near(one, other.members() | counted)


def test_long_and_short_texts_and_bad_ones_keep_their_places(client: httpx.Client) -> None:
    items = ["good film", LONG, " ", "bad " * 40, LONG + " good"]
    together = predict(client, *items, truncation="window", on_error="item")
    assert [item.get("windows") for item in together] == [1, 6, None, 2, 6]
    for text, item in zip(items, together, strict=True):
        if "error" not in item:
            (alone,) = predict(client, text, truncation="window")
            assert_same(item, alone)


def test_a_window_has_the_attention_of_the_package(start: Start, predictor: Predictor) -> None:
    with start() as server, server.client() as client:
        for number in range(6):
            wanted: dict[str, Any] = {"sentence": LONG, "truncation": "window", "window": number}
            shown = post(client, "/attention", **wanted)
            encoding = predictor.encode_window(LONG, number)
            expected = predictor.explain(encoding)
            assert list(shown) == [
                *("model", "prediction", "window", "windows", "tokens", "layers", "heads"),
                "attention",
            ]
            assert (shown["window"], shown["windows"]) == (number, 6)
            assert near(shown["attention"], expected.attention.tolist())
            assert near(shown["prediction"], expected.prediction.members())
            assert shown["tokens"] == [asdict(token) for token in encoding.tokens or ()]
        assert client.get("/attention", params=wanted).json() == shown
        archive = client.post("/attention", json={**wanted, "format": "npz"})
        with np.load(io.BytesIO(archive.content), allow_pickle=False) as arrays:
            assert (int(arrays["window"]), int(arrays["windows"])) == (5, 6)
        several = {"sentences": [LONG, "good film"], "truncation": "window", "level": "word"}
        first, second = post(client, "/attention", **several)
        assert (first["window"], first["windows"]) == (0, 6)
        assert (second["window"], second["windows"]) == (0, 1)


TEXT = "  The plot is dull 😀, but good.\n\nA warm film!  Not bad.Very long\u00a0"
PARTS = ["The plot is dull 😀, but good.", "A warm film!", "Not bad.", "Very long"]


def divided(client: httpx.Client, *texts: object, **fields: object) -> list[Prediction]:
    return predict(client, *texts, granularity="sentence", **fields)


def test_each_sentence_has_its_place_and_the_answer_that_it_has_alone(client: httpx.Client) -> None:
    (whole,) = divided(client, TEXT)
    assert list(whole) == [*MEMBERS, "sentences"]
    assert_same(whole, predict(client, TEXT)[0])
    assert [TEXT[each["start"] : each["end"]] for each in whole["sentences"]] == PARTS
    for each, alone in zip(whole["sentences"], predict(client, *PARTS), strict=True):
        assert list(each) == ["start", "end", *MEMBERS]
        assert_same(each, alone)


def test_truncation_holds_for_the_text_and_for_each_sentence(client: httpx.Client) -> None:
    long = "good " * 40 + "bad."
    text = f"{long} A film."
    (cut,) = divided(client, text)
    assert cut["truncated"] is True
    assert [each["truncated"] for each in cut["sentences"]] == [True, False]
    (whole,) = divided(client, text, truncation="window")
    assert list(whole) == [*WINDOWED, "sentences"]
    assert (whole["windows"], whole["truncated"]) == (2, False)
    alone = predict(client, long, "A film.", truncation="window")
    for each, other in zip(whole["sentences"], alone, strict=True):
        assert_same(each, other)
    short = "A good film. " * 10  # as a whole it is too long, by sentence it is not
    body = {"sentences": [short], "granularity": "sentence", "truncation": "error"}
    refused = client.post("/predict", json=body)
    loc = ("body", "sentences", 0)
    assert_problem(refused, 422, "text-too-long", loc, says="the text has 42 tokens")


_narrow = shared("--max-sentences", "5", "--max-queue-tokens", "160")


narrow = client_of("_narrow")  # which takes few texts, and 160 tokens at once


def test_an_item_with_too_many_sentences_fails_by_itself(narrow: httpx.Client) -> None:
    items = ["Good. Bad. Good.", "Bad. " * 1025, " ", 5]
    good, many, blank, number = divided(narrow, *items, on_error="item")
    assert len(good["sentences"]) == 3
    says, loc = "may have at most 1024", ("body", "sentences", 1)
    assert_members(many["error"], 422, "text-too-long", loc, says=says)
    assert_members(blank["error"], 422, "invalid-request", ("body", "sentences", 2))
    assert_members(number["error"], 422, "invalid-request", ("body", "sentences", 3))
    body = {"sentences": ["Good.", items[1]], "granularity": "sentence"}
    assert_problem(narrow.post("/predict", json=body), 422, "text-too-long", loc, says=says)
    assert predict(narrow, items[1])[0]["token_count"] == 32


def test_more_tokens_than_the_queue_holds_are_refused(narrow: httpx.Client) -> None:
    item = "A good film, and a good plot. " * 3  # 26 tokens, and 10 for each sentence
    assert len(divided(narrow, item, item)) == 2
    body = {"sentences": [item] * 3, "granularity": "sentence", "on_error": "item"}
    refused = narrow.post("/predict", json=body)
    says = "The first 3 texts take "
    assert_problem(refused, 413, "too-much-work", says=says, fits={"tokens": 160})
