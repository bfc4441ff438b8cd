"""Answers as tables of pandas, and how they print themselves."""

import sys
from collections.abc import Callable
from dataclasses import asdict, replace
from typing import Any

import numpy as np
import pandas as pd
import pytest

from headlight_client import (
    AttentionSteps,
    Attributions,
    Importance,
    ItemError,
    ModelName,
    Prediction,
    Predictions,
    Sentence,
    Thumbnails,
    Token,
    Unit,
)
from tests.client.conftest import Ask
from tests.client.scripted import predicted, scripted
from tests.client.test_plot import attention
from tests.matching import exactly

MODEL = ModelName("m", "0123456789ab")
GOOD = Prediction("yes", 0.75, {"no": 0.25, "yes": 0.75}, 5, truncated=False, model=MODEL)
CUT = Prediction("no", 0.5, {"no": 0.5, "yes": 0.5}, 32, truncated=True, model=MODEL)
BAD = ItemError("invalid-request", 422, "T", "sentences[1]: blank.")


def importance() -> Importance:
    values = np.array([[0.0, 0.5], [0.25, 0.125]])
    return Importance(MODEL, GOOD, "yes", (0, 2), (1, 3), values)


TOKENS = (
    Token("[CLS]", 0, 0, special=True, word=None),
    Token("good", 0, 4, special=False, word=0),
)


def attributions() -> Attributions:
    values = np.array([0.0, 1.5])
    return Attributions(
        MODEL, GOOD, TOKENS, values, "yes", "gradient_x_input", None, 1.0, 0.5, -1.0
    )


def steps() -> AttentionSteps:
    vectors, row = np.zeros((2, 3), np.float32), np.array([0.25, 0.75], np.float32)
    return AttentionSteps(
        MODEL, TOKENS, 2, 1, 1, 0.5, vectors[0], vectors, row - 1, row, vectors, vectors[0]
    )


def thumbnails() -> Thumbnails:
    tokens = tuple(
        Token(word, at, at + 1, special=False, word=number)
        for number, (word, at) in enumerate((("a", 0), ("b", 2)))
    )
    maps = np.array([[[[0.75]]], [[[0.625]]]], np.float32)
    strongest = np.array([[[1, 0]], [[0, 0]]])
    weights = np.array([[[0.75, 0.5]], [[0.625, 0.5]]], np.float32)
    view = "thumbnail"
    return Thumbnails(MODEL, GOOD, tokens, (0, 2), (3,), view, maps, strongest, weights)


def test_predictions() -> None:
    frame = Predictions[Prediction | ItemError]([GOOD, BAD, CUT]).to_dataframe()
    assert list(frame.columns) == [
        *("label", "score", "probability_no", "probability_yes", "token_count", "truncated"),
        *("model_version", "error"),
    ]
    rows = frame.astype(object).where(frame.notna(), None).to_numpy().tolist()
    assert rows == [
        ["yes", 0.75, 0.25, 0.75, 5, False, "0123456789ab", None],
        [None, None, None, None, None, None, None, "invalid-request"],
        ["no", 0.5, 0.5, 0.5, 32, True, "0123456789ab", None],
    ]
    assert frame["score"].dtype == np.float64
    assert str(frame["token_count"].dtype) == "Int64"
    assert list(frame.index) == [0, 1, 2]


def test_the_index_of_a_series_is_kept(ask: Ask) -> None:
    texts = pd.Series(["Loved it.", "Dull.", "Fine."], index=["c", "a", "c"], name="text")
    with scripted([predicted("yes", "no", "yes")]) as server:
        frame = ask(server.url, "predict", texts).to_dataframe()

    assert list(frame.index) == ["c", "a", "c"]
    assert list(frame["label"]) == ["yes", "no", "yes"]
    part = pd.DataFrame({"text": texts.iloc[:2], "id": [5, 6]})
    with scripted([predicted("yes", "no")]) as server:
        joined = part.join(ask(server.url, "predict", part["text"]).to_dataframe())
    assert joined[["id", "label"]].to_numpy().tolist() == [[5, "yes"], [6, "no"]]


def test_sentences_name_their_text_by_the_index_of_its_series() -> None:
    sentence = Sentence(0, 4, "yes", 0.75, GOOD.probabilities, 5, truncated=False)
    read = replace(GOOD, sentences=(sentence, sentence))
    held = Predictions([GOOD, read], index=pd.Index(["c", "a"]))

    assert list(held.sentences_to_dataframe()["text"]) == ["a", "a"]


def test_nothing_asked_is_an_empty_list_without_a_request(ask: Ask) -> None:
    with scripted([]) as server:
        several: list[Any] = [[], pd.Series([], dtype="str")]
        for nothing in several:
            found = ask(server.url, "predict", nothing)
            assert isinstance(found, Predictions)
            assert len(found) == len(found.to_dataframe()) == 0
        assert server.requests == []


def test_no_prediction_is_an_empty_table() -> None:
    frame = Predictions([]).to_dataframe()
    assert len(frame) == 0
    assert "label" in frame


def test_attention_has_a_row_for_each_weight() -> None:
    held = attention()
    frame = held.to_dataframe()
    assert list(frame.columns) == [
        *("layer", "head", "query", "key", "query_text", "key_text", "weight"),
    ]
    assert len(frame) == held.weights.size
    for row in frame.sample(20, random_state=0).itertuples():
        layer, head = held.layers.index(row.layer), held.heads.index(row.head)
        assert row.weight == held.weights[layer, head, row.query, row.key]
        assert row.query_text == held.texts[row.query]
        assert row.key_text == held.texts[row.key]
    shape = (2, 3, 3, 3)
    np.testing.assert_array_equal(frame["weight"].to_numpy().reshape(shape), held.weights)


@pytest.mark.parametrize(
    ("view", "missing"), [("mean", ["head"]), ("rollout+word", ["layer", "head"]), ("word", [])]
)
def test_what_a_view_merged_is_missing(view: str, missing: list[str]) -> None:
    frame = attention(view=view).to_dataframe()
    assert [name for name in ("layer", "head") if frame[name].isna().all()] == missing


def test_attributions_and_importance() -> None:
    frame = attributions().to_dataframe()
    assert frame.to_dict("list") == {
        "text": ["[CLS]", "good"],
        "start": [0, 0],
        "end": [0, 4],
        "special": [True, False],
        "value": [0.0, 1.5],
    }
    numbers = {"probability": 0.5, "log_odds": 0.25, "probability_change": 0.125}
    unit = Unit(0, 4, "good", **numbers, log_odds_change=1.5)
    left_out = replace(attributions(), units=(unit,)).to_dataframe()
    assert left_out.to_dict("records") == [asdict(unit)]
    assert importance().to_dataframe().to_dict("list") == {
        "layer": [0, 0, 2, 2],
        "head": [1, 3, 1, 3],
        "value": [0.0, 0.5, 0.25, 0.125],
    }


def test_steps_have_a_row_for_each_token() -> None:
    assert steps().to_dataframe().to_dict("list") == {
        "text": ["[CLS]", "good"],
        "start": [0, 0],
        "end": [0, 4],
        "score": [-0.75, -0.25],
        "weight": [0.25, 0.75],
    }


def test_thumbnails_have_a_row_for_what_each_token_looks_at_most() -> None:
    assert thumbnails().to_dataframe().to_dict("list") == {
        "layer": [0, 0, 2, 2],
        "head": [3, 3, 3, 3],
        "query": [0, 1, 0, 1],
        "key": [1, 0, 0, 0],
        "query_text": ["a", "b", "a", "b"],
        "key_text": ["b", "a", "a", "a"],
        "weight": [0.75, 0.5, 0.625, 0.5],
    }


@pytest.mark.parametrize(
    "held",
    [Predictions([GOOD]), attention(), thumbnails(), attributions(), importance(), steps()],
    ids=lambda each: type(each).__name__,
)
def test_without_pandas(held: Any, monkeypatch: pytest.MonkeyPatch) -> None:  # noqa: ANN401
    monkeypatch.setitem(sys.modules, "pandas", None)
    message = "to_dataframe needs pandas: pip install 'headlight-client[pandas]'"
    with pytest.raises(ImportError, match=exactly(message)):
        held.to_dataframe()


LONG = "an unending sentence " * 50
MADE: list[tuple[Callable[[], object], str]] = [
    (lambda: GOOD, "Prediction('yes', 0.7500, 5 tokens)"),
    (
        lambda: Predictions[Prediction | ItemError]([GOOD, BAD, GOOD]),
        "Predictions(3: 2 yes, 1 error)",
    ),
    (lambda: Token("[CLS]", 0, 0, special=True, word=None), "Token('[CLS]', special)"),
    (
        lambda: Token(LONG, 0, 1050, special=False, word=0),
        f"Token({f'{LONG[:59]}…'!r}, 0:1050)",
    ),
    (
        lambda: attention(["[CLS]", LONG], layers=[0], heads=[1]),
        f"Attention('raw', 'x', weights 1 x 1 x 2 x 2, tokens {f'[CLS] {LONG[:53]}…'!r})",
    ),
    (
        attributions,
        "Attributions('gradient_x_input', of 'yes', gap -1.0000, 2 tokens '[CLS] good')",
    ),
    (
        importance,
        "Importance(of 'yes', 2 layers x 2 heads, largest 0.5000 in layer 0, head 3)",
    ),
    (thumbnails, "Thumbnails('thumbnail', 'yes', maps 2 x 1 x 1 x 1, 2 tokens 'a b')"),
    (steps, "AttentionSteps(layer 2, head 1, of 'good', 2 tokens of 3 features)"),
]


@pytest.mark.parametrize(("make", "shown"), MADE)
def test_an_answer_prints_itself_shortly(make: Callable[[], object], shown: str) -> None:
    assert repr(make()) == shown
