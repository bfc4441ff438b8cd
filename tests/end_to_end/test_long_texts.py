"""Long texts: read whole in windows, and sentence by sentence."""

import io
import math
from typing import Any

import httpx
import numpy as np
import pytest

from tests.builders import MAX_LENGTH, WORDS, tiny_manifest
from tests.end_to_end.conftest import Start
from tests.end_to_end.routes import assert_members, assert_problem, post, predict
from tests.end_to_end.servers import client_of, shared
from tests.end_to_end.test_predict import TOLERANCE, random_sentences

ROOM = MAX_LENGTH - 2
STEP = ROOM - ROOM // 4
LONG = random_sentences(1, seed=21, longest=1)[0] + " " + " ".join(WORDS * 4)
MEMBERS = ["label", "score", "probabilities", "token_count", "truncated"]
WINDOWED = [*MEMBERS, "windows"]
Prediction = dict[str, Any]


def parts_of(text: str) -> list[str]:
    """The windows of a text of known words, each as a text of its own."""
    words = text.split()
    count = 1 + max(0, math.ceil((len(words) - ROOM) / STEP))
    return [" ".join(words[at * STEP : at * STEP + ROOM]) for at in range(count)]


def log_odds(prediction: Prediction) -> float:
    probabilities = prediction["probabilities"]
    return math.log(probabilities["positive"] / probabilities["negative"])


def assert_same(one: Prediction, other: Prediction) -> None:
    """Two answers are those of one text."""
    for member in ("label", "token_count", "truncated"):
        assert one[member] == other[member]
    assert one["probabilities"] == pytest.approx(other["probabilities"], abs=TOLERANCE)
    assert one["score"] == max(one["probabilities"].values())


def test_a_long_text_has_the_mean_of_the_logits_of_its_windows(client: httpx.Client) -> None:
    (whole,) = predict(client, LONG, truncation="window")
    windows = predict(client, *parts_of(LONG))
    counts = [window["token_count"] for window in windows]
    assert list(whole) == WINDOWED
    assert (whole["windows"], whole["truncated"]) == (len(windows), False)
    assert len(windows) == 6
    assert whole["token_count"] == sum(counts)
    # The temperature divides the mean as it divides each of them.
    assert tiny_manifest().temperature == 1.5
    mean = np.average([log_odds(window) for window in windows], weights=counts)
    assert log_odds(whole) == pytest.approx(mean, abs=10 * TOLERANCE)


def test_a_text_that_fits_has_the_plain_answer_and_one_window(client: httpx.Client) -> None:
    sentences = random_sentences(40, seed=22)
    whole = predict(client, *sentences, truncation="window")
    for one, other in zip(predict(client, *sentences), whole, strict=True):
        assert list(other) == WINDOWED
        assert other["windows"] == 1
        assert_same(one, other)


def test_long_and_short_texts_and_bad_ones_keep_their_places(client: httpx.Client) -> None:
    items = ["good film", LONG, " ", "bad " * 40, LONG + " good"]
    together = predict(client, *items, truncation="window", on_error="item")
    assert [item.get("windows") for item in together] == [1, 6, None, 2, 6]
    for text, item in zip(items, together, strict=True):
        if "error" not in item:
            (alone,) = predict(client, text, truncation="window")
            assert_same(item, alone)


def test_attention_of_a_window_is_that_of_its_text_alone(start: Start) -> None:
    with start() as server, server.client() as client:
        for number, part in enumerate(parts_of(LONG)):
            before = sum(len(word) + 1 for word in LONG.split()[: number * STEP])
            wanted: dict[str, Any] = {"sentence": LONG, "truncation": "window", "window": number}
            shown = post(client, "/attention", **wanted)
            alone = post(client, "/attention", sentence=part)
            assert list(shown) == [
                *("model", "prediction", "window", "windows", "tokens", "layers", "heads"),
                "attention",
            ]
            assert (shown["window"], shown["windows"]) == (number, 6)
            np.testing.assert_allclose(shown["attention"], alone["attention"], atol=TOLERANCE)
            assert_same(shown["prediction"], alone["prediction"])
            assert shown["tokens"] == [
                token
                if token["special"]
                else {
                    **token,
                    "start": token["start"] + before,
                    "end": token["end"] + before,
                    "word": token["word"] + number * STEP,
                }
                for token in alone["tokens"]
            ]
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
