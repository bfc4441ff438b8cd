"""`granularity: "sentence"` on a socket: a text as a whole, and each of its sentences."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from hypothesis import given
from hypothesis import strategies as st

from model.tokenization.check import is_blank
from tests.end_to_end.problems import error
from tests.end_to_end.servers import service
from tests.end_to_end.test_predict import BLANK, TOLERANCE, ask

MEMBERS = ["label", "score", "probabilities", "token_count", "truncated"]
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


def test_one_granularity_is_that_of_the_text(client: httpx.Client) -> None:
    body = {"sentences": [TEXT], "granularity": "text"}
    (plain,) = client.post("/predict", json=body).json()["predictions"]
    assert list(plain) == MEMBERS


def test_every_text_of_a_request_has_its_own_sentences(client: httpx.Client) -> None:
    texts = ["Good. Bad.", "one", TEXT, "A film. A plot. A cast."]
    together = divided(client, *texts)
    assert [len(item["sentences"]) for item in together] == [2, 1, 4, 3]
    for text, item in zip(texts, together, strict=True):
        (alone,) = divided(client, text)
        same(item, alone)
        for one, other in zip(item["sentences"], alone["sentences"], strict=True):
            assert (one["start"], one["end"]) == (other["start"], other["end"])
            same(one, other)


@given(
    text=st.text(st.sampled_from("ab. !?\n«“é😀\u200b\u0085\u3000"), min_size=1).filter(
        lambda text: not is_blank(text)
    )
)
def test_of_any_text_all_is_covered_once_and_in_order(client: httpx.Client, text: str) -> None:
    (whole,) = divided(client, text)
    end = 0
    for each in whole["sentences"]:
        assert not text[end : each["start"]].strip()
        assert each["start"] < each["end"]
        end = each["end"]
    assert not text[end:].strip()


def test_sentences_abstain_too(client: httpx.Client) -> None:
    (plain,) = divided(client, TEXT)
    scores = sorted(each["score"] for each in plain["sentences"])
    (unsure,) = divided(client, TEXT, abstain_below=scores[2])
    labels = [each["label"] for each in plain["sentences"]]
    expected = [
        label if each["score"] >= scores[2] else None
        for label, each in zip(labels, plain["sentences"], strict=True)
    ]
    assert [each["label"] for each in unsure["sentences"]] == expected
    assert [each["score"] for each in unsure["sentences"]] == pytest.approx(
        [each["score"] for each in plain["sentences"]], abs=TOLERANCE
    )


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
    message = (
        "the text has 44 tokens and the model reads at most 32: shorten it, or set truncation to "
        "right or left"
    )
    short = "A good film. " * 10  # as a whole it is too long, by sentence it is not
    body = {"sentences": [short], "granularity": "sentence", "truncation": "error"}
    response = client.post("/predict", json=body)
    assert response.status_code == 422
    message = message.replace("44", "42")
    assert response.json()["errors"] == [error("body", "sentences", 0, msg=message)]


@pytest.fixture(scope="module")
def narrow(checkpoint_folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """A service that takes three sentences of an item, and 160 tokens at once."""
    options = ("--max-item-sentences", "3", "--max-sentences", "5", "--max-queue-tokens", "160")
    folder = tmp_path_factory.mktemp("narrow")
    with service(checkpoint_folder, folder, *options) as server, server.client() as client:
        yield client


def test_an_item_with_too_many_sentences_fails_alone(narrow: httpx.Client) -> None:
    message = (
        "the text has more than 3 sentences, and may have at most 3: divide it, or ask for one "
        "answer of the whole text"
    )
    items = ["Good. Bad. Good.", "Good. Bad. Good. Bad.", " ", 5]
    good, many, blank, number = divided(narrow, *items, on_error="item")
    assert len(good["sentences"]) == 3
    assert many == {
        "error": {
            "type": "/problems/text-too-long",
            "title": "The text is too long",
            "status": 422,
            "detail": f"sentences[1]: {message}.",
            "errors": [error("body", "sentences", 1, msg=message)],
        }
    }
    assert blank["error"]["errors"] == [error("body", "sentences", 2, msg=BLANK)]
    assert number["error"]["type"] == "/problems/invalid-request"
    body = {"sentences": ["Good.", items[1]], "granularity": "sentence"}
    refused = narrow.post("/predict", json=body)
    assert refused.status_code == 422
    assert refused.json()["detail"] == f"sentences[1]: {message}."
    assert ask(narrow, items[1])[0]["token_count"] == 10


def test_more_tokens_than_the_queue_holds_are_refused(narrow: httpx.Client) -> None:
    item = "A good film, and a good plot. " * 3  # 26 tokens, and 10 for each sentence
    assert len(divided(narrow, item, item)) == 2
    body = {"sentences": [item] * 3, "granularity": "sentence", "on_error": "item"}
    refused = narrow.post("/predict", json=body)
    message = (
        "the first 3 texts have more than 160 tokens with all windows and sentences, and the queue "
        "holds no more: send fewer or shorter texts at once"
    )
    assert refused.status_code == 422
    assert refused.json()["type"] == "/problems/invalid-request"
    assert refused.json()["errors"] == [error("body", "sentences", msg=message)]


@pytest.mark.parametrize(
    ("text", "count"),
    [("." * 1_000_000, 1), ("«" * 300_000, 1), ("?!" * 500_000, 1), ("word " * 200_000, 1)],
    ids=["dots", "quotes", "marks", "words"],
)
def test_a_huge_text_without_an_end_is_one_sentence(
    large: httpx.Client, text: str, count: int
) -> None:
    (answer,) = divided(large, text)
    assert answer["truncated"] is True
    assert len(answer["sentences"]) == count
    assert (answer["sentences"][0]["start"], answer["sentences"][0]["end"]) == (
        0,
        len(text.rstrip()),
    )


def test_a_hundred_thousand_sentences_are_refused(large: httpx.Client) -> None:
    body = {"sentences": ["Hi. " * 100_000], "granularity": "sentence"}
    refused = large.post("/predict", json=body)
    assert refused.status_code == 422
    assert refused.json()["type"] == "/problems/text-too-long"
    assert "more than 1024 sentences" in refused.json()["detail"]
    body["truncation"] = "window"  # the text as a whole is judged first
    assert "windows of 32 tokens" in large.post("/predict", json=body).json()["detail"]


@pytest.fixture(scope="module")
def large(checkpoint_folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """A service with the default limits, that nobody hurries."""
    folder = tmp_path_factory.mktemp("large")
    options = ("--request-timeout", "3600")
    with (
        service(checkpoint_folder, folder, *options) as server,
        httpx.Client(base_url=server.url, timeout=None) as client,  # noqa: S113 - no hurry
    ):
        yield client


@pytest.mark.parametrize("wrong", ["sentences", "", None, 1])
def test_another_granularity_is_refused(client: httpx.Client, wrong: object) -> None:
    response = client.post("/predict", json={"sentences": ["a"], "granularity": wrong})
    assert response.status_code == 422
    (fault,) = response.json()["errors"]
    assert fault["loc"] == ["body", "granularity"]
    assert fault["msg"].startswith("must be 'text' or 'sentence'")


def test_no_word_of_a_text_is_logged(checkpoint_folder: Path, tmp_path: Path) -> None:
    with service(checkpoint_folder, tmp_path) as server, server.client() as client:
        divided(client, "Zyxwv is good. Zyxwv is R\u0085. bad", "«Zyxwv. " * 500)
        client.post("/predict", json={"sentences": ["Zyxwv. " * 9000], "granularity": "sentence"})
        assert "zyxwv" not in server.log.read_text("utf-8").lower()
        assert server.errors() == []
