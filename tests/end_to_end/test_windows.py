"""`truncation: "window"` on a socket: long texts read whole, by `/predict` and `/attention`."""

import io
import math
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pytest

from tests.builders import MAX_LENGTH, WORDS, tiny_manifest
from tests.end_to_end.problems import error
from tests.end_to_end.servers import service
from tests.end_to_end.test_predict import TOLERANCE, ask, random_sentences

ROOM = MAX_LENGTH - 2
STEP = ROOM - ROOM // 4
LONG = random_sentences(1, seed=21, longest=1)[0] + " " + " ".join(WORDS * 4)
MEMBERS = ["label", "score", "probabilities", "token_count", "truncated", "windows"]


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
    assert list(whole) == MEMBERS
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
        assert list(other) == MEMBERS
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


def test_abstaining_keeps_the_windows(client: httpx.Client) -> None:
    body = {"sentences": [LONG], "truncation": "window", "abstain_below": 1.0}
    (unsure,) = client.post("/predict", json=body).json()["predictions"]
    assert list(unsure) == MEMBERS
    assert (unsure["label"], unsure["windows"]) == (None, 6)


def test_more_tokens_than_the_queue_holds_are_refused(
    checkpoint_folder: Path, tmp_path: Path
) -> None:
    options = ("--max-sentences", "2", "--max-queue-tokens", "100", "--max-windows", "3")
    with service(checkpoint_folder, tmp_path, *options) as server, server.client() as client:
        assert client.get("/model").json()["limits"]["max_windows"] == 3
        assert ask(client, "good " * 76, truncation="window")[0]["windows"] == 3
        too_many = (
            "the text takes 4 windows of 32 tokens and may have at most 3: divide it, or set "
            "truncation to right or left"
        )
        response = client.post(
            "/predict", json={"sentences": ["good", "good " * 77], "truncation": "window"}
        )
        assert response.status_code == 422
        assert response.json() == {
            "type": "/problems/text-too-long",
            "title": "The text is too long",
            "status": 422,
            "detail": f"sentences[1]: {too_many}.",
            "errors": [error("body", "sentences", 1, msg=too_many)],
        }
        body = {"sentences": ["good", "good " * 77], "truncation": "window", "on_error": "item"}
        good, long = client.post("/predict", json=body).json()["predictions"]
        assert good["windows"] == 1
        assert long["error"]["type"] == "/problems/text-too-long"
        too_much = (
            "the first 2 texts have more than 100 tokens with all windows and sentences, and the "
            "queue holds no more: send fewer or shorter texts at once"
        )
        body = {"sentences": ["good " * 76] * 2, "truncation": "window", "on_error": "item"}
        response = client.post("/predict", json=body)
        assert response.status_code == 422
        assert response.json() == {
            "type": "/problems/invalid-request",
            "title": "The request is not valid",
            "status": 422,
            "detail": f"sentences: {too_much}.",
            "errors": [error("body", "sentences", msg=too_much)],
        }


def test_attention_of_a_window_is_that_of_its_text_alone(
    checkpoint_folder: Path, tmp_path: Path
) -> None:
    with service(checkpoint_folder, tmp_path) as server, server.client() as client:
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


@pytest.mark.parametrize(
    ("fields", "loc", "message"),
    [
        (
            {"truncation": "window", "window": 6},
            ("body", "window"),
            "the text has 6 windows, 0 to 5, got 6",
        ),
        (
            {"truncation": "window", "window": -1},
            ("body", "window"),
            "must be at least 0, got -1",
        ),
        (
            {"window": 1},
            ("body", "window"),
            '`window` needs `truncation: "window"`',
        ),
        (
            {"truncation": "window", "window": "0"},
            ("body", "window"),
            "must be a whole number, got a string",
        ),
        (
            {"truncation": "windows"},
            ("body", "truncation"),
            "must be 'right', 'left', 'error' or 'window'",
        ),
    ],
)
def test_a_window_that_cannot_be_shown_is_refused(
    client: httpx.Client, fields: dict[str, object], loc: tuple[str, str], message: str
) -> None:
    response = client.post("/attention", json={"sentence": LONG, **fields})
    assert response.status_code == 422
    problem = response.json()
    assert problem["type"] == "/problems/invalid-request"
    assert problem["errors"] == [error(*loc, msg=message)]


def test_of_several_texts_the_one_without_the_window_is_named(client: httpx.Client) -> None:
    body = {"sentences": [LONG, "good film"], "truncation": "window", "window": 1}
    problem = client.post("/attention", json=body).json()
    message = "of sentences[1], the text has 1 window, 0, got 1"
    assert problem["detail"] == f"window: {message}."
    assert problem["errors"] == [error("body", "window", msg=message)]


@pytest.mark.parametrize("path", ["/attributions", "/importance"])
def test_gradients_are_of_what_the_model_reads_at_once(client: httpx.Client, path: str) -> None:
    response = client.post(path, json={"sentence": LONG, "truncation": "window"})
    assert response.status_code == 422
    assert response.json()["errors"][0]["loc"] == ["body", "truncation"]
