"""Long texts on a socket: read whole in windows, and sentence by sentence."""

import io
import math
from collections.abc import Iterator
from typing import Any

import httpx
import numpy as np
import pytest

from tests.builders import MAX_LENGTH, WORDS, tiny_manifest
from tests.end_to_end.conftest import Start, shared
from tests.end_to_end.problems import assert_members, assert_problem
from tests.end_to_end.servers import RunningService
from tests.end_to_end.test_predict import TOLERANCE, ask, random_sentences

ROOM = MAX_LENGTH - 2
STEP = ROOM - ROOM // 4
LONG = random_sentences(1, seed=21, longest=1)[0] + " " + " ".join(WORDS * 4)
MEMBERS = ["label", "score", "probabilities", "token_count", "truncated"]
WINDOWED = [*MEMBERS, "windows"]


def parts_of(text: str) -> list[str]:
    """The windows of a text of known words, each as a text of its own."""
    words = text.split()
    count = 1 + max(0, math.ceil((len(words) - ROOM) / STEP))
    return [" ".join(words[at * STEP : at * STEP + ROOM]) for at in range(count)]


def logits_of(prediction: dict[str, Any]) -> dict[str, float]:
    """Logits up to a constant, from which only their differences tell anything."""
    temperature = tiny_manifest().temperature
    probabilities = prediction["probabilities"]
    return {label: temperature * math.log(share) for label, share in probabilities.items()}


def test_a_long_text_has_the_mean_of_the_logits_of_its_windows(client: httpx.Client) -> None:
    (whole,) = ask(client, LONG, truncation="window")
    windows: list[dict[str, Any]] = ask(client, *parts_of(LONG))
    counts = [window["token_count"] for window in windows]
    assert list(whole) == WINDOWED
    assert (whole["windows"], whole["truncated"]) == (len(windows), False)
    assert len(windows) == 6
    assert whole["token_count"] == sum(counts)
    gap = sum(
        count * (logits["positive"] - logits["negative"])
        for count, logits in zip(counts, map(logits_of, windows), strict=True)
    ) / sum(counts)
    positive = 1 / (1 + math.exp(-gap / tiny_manifest().temperature))
    assert whole["probabilities"] == pytest.approx(
        {"negative": 1 - positive, "positive": positive}, abs=TOLERANCE
    )


def test_a_text_that_fits_has_the_plain_answer_and_one_window(client: httpx.Client) -> None:
    sentences = random_sentences(40, seed=22)
    plain = ask(client, *sentences)
    whole = ask(client, *sentences, truncation="window")
    for one, other in zip(plain, whole, strict=True):
        assert list(other) == WINDOWED
        assert other["windows"] == 1
        for member in ("label", "token_count", "truncated"):
            assert other[member] == one[member]
        assert other["probabilities"] == pytest.approx(one["probabilities"], abs=TOLERANCE)


def test_long_and_short_texts_and_bad_ones_keep_their_places(client: httpx.Client) -> None:
    items = ["good film", LONG, " ", "bad " * 40, LONG + " good"]
    together = ask(client, *items, truncation="window", on_error="item")
    assert [item.get("windows") for item in together] == [1, 6, None, 2, 6]
    for text, item in zip(items, together, strict=True):
        if "error" not in item:
            (alone,) = ask(client, text, truncation="window")
            assert item["probabilities"] == pytest.approx(alone["probabilities"], abs=TOLERANCE)


def test_attention_of_a_window_is_that_of_its_text_alone(start: Start) -> None:
    with start() as server, server.client() as client:
        for number, part in enumerate(parts_of(LONG)):
            before = sum(len(word) + 1 for word in LONG.split()[: number * STEP])
            fields = {"truncation": "window", "window": number}
            shown = client.post("/attention", json={"sentence": LONG, **fields}).json()
            alone = client.post("/attention", json={"sentence": part}).json()
            assert list(shown) == [
                *("model", "prediction", "window", "windows", "tokens", "layers", "heads"),
                "attention",
            ]
            assert (shown["window"], shown["windows"]) == (number, 6)
            np.testing.assert_allclose(shown["attention"], alone["attention"], atol=TOLERANCE)
            assert shown["prediction"]["probabilities"] == pytest.approx(
                alone["prediction"]["probabilities"], abs=TOLERANCE
            )
            assert shown["prediction"]["truncated"] is False
            expected = [
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
            assert shown["tokens"] == expected
            query: dict[str, str | int] = {"sentence": LONG, "truncation": "window"}
            query["window"] = number
            assert client.get("/attention", params=query).json()["tokens"] == expected
        archive = client.post("/attention", json={"sentence": LONG, **fields, "format": "npz"})
        with np.load(io.BytesIO(archive.content), allow_pickle=False) as arrays:
            assert (int(arrays["window"]), int(arrays["windows"])) == (5, 6)
        several = {"sentences": [LONG, "good film"], "truncation": "window", "level": "word"}
        first, second = client.post("/attention", json=several).json()
        assert (first["window"], first["windows"]) == (0, 6)
        assert (second["window"], second["windows"]) == (0, 1)


TEXT = "  The plot is dull 😀, but good.\n\nA warm film!  Not bad.Very long\u00a0"
PARTS = ["The plot is dull 😀, but good.", "A warm film!", "Not bad.", "Very long"]


def divided(client: httpx.Client, *texts: object, **fields: object) -> list[dict[str, Any]]:
    """The predictions of texts with their sentences."""
    body = {"sentences": texts, "granularity": "sentence", **fields}
    response = client.post("/predict", json=body)
    assert response.status_code == 200, response.text
    predictions: list[dict[str, Any]] = response.json()["predictions"]
    return predictions


def same(one: dict[str, Any], other: dict[str, Any]) -> None:
    """Asserts that two answers are those of one text."""
    for member in ("label", "token_count", "truncated"):
        assert one[member] == other[member]
    assert one["probabilities"] == pytest.approx(other["probabilities"], abs=TOLERANCE)
    assert one["score"] == max(one["probabilities"].values())


def test_each_sentence_has_its_place_and_the_answer_that_it_has_alone(
    client: httpx.Client,
) -> None:
    (whole,) = divided(client, TEXT)
    assert list(whole) == [*MEMBERS, "sentences"]
    same({name: whole[name] for name in MEMBERS}, ask(client, TEXT)[0])
    assert [TEXT[each["start"] : each["end"]] for each in whole["sentences"]] == PARTS
    for each, alone in zip(whole["sentences"], ask(client, *PARTS), strict=True):
        assert list(each) == ["start", "end", *MEMBERS]
        same(each, alone)


def test_truncation_holds_for_the_text_and_for_each_sentence(client: httpx.Client) -> None:
    long = "good " * 40 + "bad."
    text = f"{long} A film."
    (cut,) = divided(client, text)
    assert cut["truncated"] is True
    assert [each["truncated"] for each in cut["sentences"]] == [True, False]
    (whole,) = divided(client, text, truncation="window")
    assert list(whole) == [*MEMBERS, "windows", "sentences"]
    assert (whole["windows"], whole["truncated"]) == (2, False)
    assert [each["truncated"] for each in whole["sentences"]] == [False, False]
    for each, alone in zip(
        whole["sentences"], ask(client, long, "A film.", truncation="window"), strict=True
    ):
        assert list(each) == ["start", "end", *MEMBERS]
        same(each, alone)
    short = "A good film. " * 10  # as a whole it is too long, by sentence it is not
    body = {"sentences": [short], "granularity": "sentence", "truncation": "error"}
    refused = client.post("/predict", json=body)
    loc = ("body", "sentences", 0)
    assert_problem(refused, 422, "text-too-long", loc, says="the text has 42 tokens")


_narrow = shared(*("--max-sentences", "5", "--max-queue-tokens", "160"))


@pytest.fixture(scope="module")
def narrow(_narrow: RunningService) -> Iterator[httpx.Client]:
    """Of a service that takes few sentences, and 160 tokens at once."""
    with _narrow.client() as client:
        yield client


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
    assert ask(narrow, items[1])[0]["token_count"] == 32


def test_more_tokens_than_the_queue_holds_are_refused(narrow: httpx.Client) -> None:
    item = "A good film, and a good plot. " * 3  # 26 tokens, and 10 for each sentence
    assert len(divided(narrow, item, item)) == 2
    body = {"sentences": [item] * 3, "granularity": "sentence", "on_error": "item"}
    refused = narrow.post("/predict", json=body)
    says = "The first 3 texts take "
    assert_problem(refused, 413, "too-much-work", says=says, fits={"tokens": 160})
