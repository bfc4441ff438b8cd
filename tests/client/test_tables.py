"""Answers as tables of pandas, and how they print themselves."""

import sys
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
CLASSES = {"no": 0.25, "yes": 0.75}
GOOD = Prediction("yes", 0.75, CLASSES, 5, truncated=False, model=MODEL)
FIRST = Sentence(0, 5, "yes", 0.75, CLASSES, 4, truncated=False)
UNSURE = Sentence(6, 9, None, 0.5, {"no": 0.5, "yes": 0.5}, 3, truncated=True)
READ = replace(GOOD, label=None, truncated=True, windows=3, sentences=(FIRST, UNSURE))
BAD = ItemError("invalid-request", 422, "T", "sentences[1]: blank.")
MIXED = Predictions[Prediction | ItemError]([GOOD, BAD, READ])

TOKENS = (Token("[CLS]", 0, 0, special=True, word=None), Token("good", 0, 4, special=False, word=0))
ROW, VECTORS = np.array([0.25, 0.75], np.float32), np.zeros((2, 3), np.float32)
IMPORTANCE = Importance(
    *(MODEL, GOOD, "yes", (0, 2), (1, 3)), np.array([[0.0, 0.5], [0.25, 0.125]])
)
VALUES = np.array([0.0, 1.5])
ATTRIBUTIONS = Attributions(
    MODEL, GOOD, TOKENS, VALUES, "yes", "gradient_x_input", None, 1.0, 0.5, -1.0
)
STEPS = AttentionSteps(
    *(MODEL, TOKENS, 2, 1, 1, 0.5, VECTORS[0], VECTORS, ROW - 1, ROW, VECTORS, VECTORS[0])
)
THUMBNAILS = Thumbnails(
    *(MODEL, GOOD, TOKENS, (0, 2), (3,), "thumbnail"),
    maps=np.array([[[[0.75]]], [[[0.625]]]], np.float32),
    strongest=np.array([[[1, 0]], [[0, 0]]]),
    strongest_weights=np.array([[[0.75, 0.5]], [[0.625, 0.5]]], np.float32),
)


def test_predictions() -> None:
    frame = MIXED.to_dataframe()
    assert list(frame.columns) == [
        *("label", "score", "probability_no", "probability_yes", "token_count", "truncated"),
        *("windows", "model_version", "error"),
    ]
    rows = frame.astype(object).where(frame.notna(), None).to_numpy().tolist()
    assert rows == [
        ["yes", 0.75, 0.25, 0.75, 5, False, None, "0123456789ab", None],
        [None, None, None, None, None, None, None, None, "invalid-request"],
        [None, 0.75, 0.25, 0.75, 5, True, 3, "0123456789ab", None],
    ]
    assert list(frame.index) == [0, 1, 2]
    assert "windows" not in Predictions([GOOD]).to_dataframe()


def test_sentences() -> None:
    frame = MIXED.sentences_to_dataframe()
    assert frame.astype(object).where(frame.notna(), None).to_dict("list") == {
        "text": [2, 2],
        "sentence": [0, 1],
        "start": [0, 6],
        "end": [5, 9],
        "label": ["yes", None],
        "score": [0.75, 0.5],
        "probability_no": [0.25, 0.5],
        "probability_yes": [0.75, 0.5],
        "token_count": [4, 3],
        "truncated": [False, True],
        "model_version": ["0123456789ab"] * 2,
    }
    assert frame.dtypes.astype(str).to_dict() == {
        **dict.fromkeys(("text", "sentence", "start", "end", "token_count"), "Int64"),
        **dict.fromkeys(("score", "probability_no", "probability_yes"), "float64"),
        **dict.fromkeys(("label", "model_version"), "string"),
        "truncated": "boolean",
    }
    held = Predictions([GOOD, READ], index=pd.Index(["c", "a"]))
    assert list(held.sentences_to_dataframe()["text"]) == ["a", "a"]


def test_the_index_of_a_series_is_kept(ask: Ask) -> None:
    texts = pd.Series(["Loved it.", "Dull.", "Fine."], index=["c", "a", "c"], name="text")
    with scripted([predicted("yes", "no", "yes")]) as server:
        frame = ask(server.url, "predict", texts).to_dataframe()
    assert list(frame["label"].items()) == [("c", "yes"), ("a", "no"), ("c", "yes")]


def test_nothing_asked_is_an_empty_list_without_a_request(ask: Ask) -> None:
    with scripted([]) as server:
        several: list[Any] = [[], pd.Series([], dtype="str")]
        for nothing in several:
            found = ask(server.url, "predict", nothing)
            assert isinstance(found, Predictions)
            assert len(found) == len(found.to_dataframe()) == len(found.sentences_to_dataframe())
            assert "label" in found.to_dataframe()
        assert server.requests == []


def test_attention_has_a_row_for_each_weight() -> None:
    held = attention()
    frame = held.to_dataframe()
    layer, head, query, key = np.indices(held.weights.shape).reshape(4, -1)
    texts = np.array(held.texts)
    expected = {
        "layer": np.array(held.layers)[layer],
        "head": np.array(held.heads)[head],
        "query": query,
        "key": key,
        "query_text": texts[query],
        "key_text": texts[key],
        "weight": held.weights.ravel(),
    }
    assert frame.to_dict("list") == {name: each.tolist() for name, each in expected.items()}


@pytest.mark.parametrize(
    ("view", "missing"), [("mean", ["head"]), ("rollout+word", ["layer", "head"]), ("word", [])]
)
def test_what_a_view_merged_is_missing(view: str, missing: list[str]) -> None:
    frame = attention(view=view).to_dataframe()
    assert [name for name in ("layer", "head") if frame[name].isna().all()] == missing


UNIT = Unit(0, 4, "good", 0.5, 0.25, 0.125, 1.5)
NAMES = {"text": ["[CLS]", "good"], "start": [0, 0], "end": [0, 4]}


@pytest.mark.parametrize(
    ("held", "columns"),
    [
        (ATTRIBUTIONS, {**NAMES, "special": [True, False], "value": [0.0, 1.5]}),
        (
            replace(ATTRIBUTIONS, units=(UNIT,)),
            {name: [value] for name, value in asdict(UNIT).items()},
        ),
        (
            IMPORTANCE,
            {"layer": [0, 0, 2, 2], "head": [1, 3, 1, 3], "value": [0.0, 0.5, 0.25, 0.125]},
        ),
        (STEPS, {**NAMES, "score": [-0.75, -0.25], "weight": [0.25, 0.75]}),
        (
            THUMBNAILS,
            {
                "layer": [0, 0, 2, 2],
                "head": [3, 3, 3, 3],
                "query": [0, 1, 0, 1],
                "key": [1, 0, 0, 0],
                "query_text": ["[CLS]", "good"] * 2,
                "key_text": ["good", *["[CLS]"] * 3],
                "weight": [0.75, 0.5, 0.625, 0.5],
            },
        ),
    ],
    ids=["attributions", "units", "importance", "steps", "thumbnails"],
)
def test_columns(held: Any, columns: dict[str, list[Any]]) -> None:  # noqa: ANN401
    assert held.to_dataframe().to_dict("list") == columns


def test_without_pandas(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pandas", None)
    message = "to_dataframe needs pandas: pip install 'headlight-client[pandas]'"
    with pytest.raises(ImportError, match=exactly(message)):
        MIXED.to_dataframe()


LONG = "an unending sentence " * 50


@pytest.mark.parametrize(
    ("answer", "shown"),
    [
        (GOOD, "Prediction('yes', 0.7500, 5 tokens)"),
        (READ, "Prediction(None, 0.7500, 5 tokens, truncated, 3 windows, 2 sentences)"),
        (
            replace(GOOD, windows=1, sentences=(FIRST,)),
            "Prediction('yes', 0.7500, 5 tokens, 1 sentence)",
        ),
        (UNSURE, "Sentence(6:9, None, 0.5000)"),
        (MIXED, "Predictions(3: 1 yes, 1 error, 1 without label)"),
        (TOKENS[0], "Token('[CLS]', special)"),
        (Token(LONG, 0, 1050, special=False, word=0), f"Token({f'{LONG[:59]}…'!r}, 0:1050)"),
        (
            attention(["[CLS]", LONG], layers=[0], heads=[1]),
            f"Attention('raw', 'x', weights 1 x 1 x 2 x 2, tokens {f'[CLS] {LONG[:53]}…'!r})",
        ),
        (
            ATTRIBUTIONS,
            "Attributions('gradient_x_input', of 'yes', gap -1.0000, 2 tokens '[CLS] good')",
        ),
        (IMPORTANCE, "Importance(of 'yes', 2 layers x 2 heads, largest 0.5000 in layer 0, head 3)"),
        (THUMBNAILS, "Thumbnails('thumbnail', 'yes', maps 2 x 1 x 1 x 1, 2 tokens '[CLS] good')"),
        (STEPS, "AttentionSteps(layer 2, head 1, of 'good', 2 tokens of 3 features)"),
    ],
)
def test_an_answer_prints_itself_shortly(answer: object, shown: str) -> None:
    assert repr(answer) == shown
