"""Windows, sentences and answers without a label: requests, portions and tables."""

import json

import pytest

from headlight_client import ModelName, Prediction, Predictions, Sentence
from headlight_client.calls import predict
from headlight_client.portions import Limits, Portions, limits_of

MODEL = ModelName("tiny", "0" * 12)
GOOD = Sentence(0, 5, "good", 0.75, {"bad": 0.25, "good": 0.75}, 4, truncated=False)
UNSURE = Sentence(6, 9, None, 0.5, {"bad": 0.5, "good": 0.5}, 3, truncated=True)


def test_an_older_service_is_sent_nothing_that_it_does_not_know() -> None:
    known = {"sentences": ["a"], "truncation": "right", "on_error": "request"}
    assert json.loads(predict(["a"]).body or b"") == known
    call = predict(["a"], granularity="sentence", abstain_below=0.0)
    new = {"granularity": "sentence", "abstain_below": 0.0}
    assert json.loads(call.body or b"") == known | new


@pytest.mark.parametrize(
    ("options", "counts"),
    [
        ({"truncation": "right"}, [10]),
        ({"truncation": "window"}, [3, 3, 3, 1]),
        ({"truncation": "right", "granularity": "sentence"}, [2, 2, 2, 2, 2]),
    ],
)
def test_a_portion_fits_into_the_queue_too(options: dict[str, str], counts: list[int]) -> None:
    portions = Portions(["x" * 60] * 10, on_error="request", **options)
    limits = limits_of({"max_queue_tokens": 1000})
    assert limits == Limits(work_tokens=1000)
    assert [len(portion) for portion in portions.cut(limits)] == counts
    for portion in portions.cut(limits):
        body = portions.call(portion).body or b""
        assert len(counts) == 1 or len(body) <= 250


def predictions() -> Predictions[Prediction]:
    return Predictions(
        [
            Prediction(
                *("good", 0.75, {"bad": 0.25, "good": 0.75}, 5),
                truncated=False,
                model=MODEL,
                windows=3,
                sentences=(GOOD, UNSURE),
            ),
            Prediction(
                *(None, 0.5, {"bad": 0.5, "good": 0.5}, 5),
                truncated=False,
                model=MODEL,
                windows=1,
                sentences=(GOOD,),
            ),
        ]
    )


def test_answers_in_one_line() -> None:
    first, second = predictions()
    assert repr(first) == "Prediction('good', 0.7500, 5 tokens, 3 windows, 2 sentences)"
    assert repr(second) == "Prediction(None, 0.5000, 5 tokens, 1 sentence)"
    assert repr(predictions()) == "Predictions(2: 1 good, 1 without label)"
    assert repr(UNSURE) == "Sentence(6:9, None, 0.5000)"


def test_tables() -> None:
    frame = predictions().to_dataframe()
    assert list(frame.columns) == [
        *("label", "score", "probability_bad", "probability_good", "token_count", "truncated"),
        *("windows", "model_version", "error"),
    ]
    assert frame["windows"].tolist() == [3, 1]
    assert frame["label"].isna().tolist() == [False, True]

    frame = predictions().sentences_to_dataframe()
    assert list(frame.columns) == [
        *("text", "sentence", "start", "end", "label", "score", "probability_bad"),
        *("probability_good", "token_count", "truncated", "model_version"),
    ]
    assert frame[["text", "sentence", "start", "end"]].to_numpy().tolist() == [
        [0, 0, 0, 5],
        [0, 1, 6, 9],
        [1, 0, 0, 5],
    ]
    assert frame["label"].fillna("none").tolist() == ["good", "none", "good"]
    assert frame.dtypes.astype(str).to_dict() == {
        **dict.fromkeys(("text", "sentence", "start", "end", "token_count"), "Int64"),
        **dict.fromkeys(("score", "probability_bad", "probability_good"), "float64"),
        **dict.fromkeys(("label", "model_version"), "string"),
        "truncated": "boolean",
    }
    assert len(Predictions[Prediction]().sentences_to_dataframe()) == 0
