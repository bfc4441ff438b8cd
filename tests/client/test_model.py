"""The answer of `/model`, from newer and from older services."""

import json

import httpx

from headlight_client.answers import Answer, Threshold, Thresholds
from headlight_client.reading import read_model

# The answers of services before they reported reasons, limits and thresholds.
OLDER: dict[str, object] = {
    "name": "default",
    "version": "0123456789ab",
    "architecture": "BertForSequenceClassification",
    "labels": ["negative", "positive"],
    "num_layers": 6,
    "num_heads": 12,
    "hidden_size": 384,
    "parameters": 1,
    "max_length": 512,
    "temperature": 1.5,
    "device": "cpu",
    "dtype": "int8",
    "metrics": [],
}


def answer(**members: object) -> Answer:
    return Answer(200, httpx.Headers(), json.dumps({**OLDER, **members}).encode())


def test_thresholds() -> None:
    left = {
        "threshold": 0.9,
        "rows": 2,
        "share": 0.5,
        "accuracy": 0.5,
        "precision": {"negative": None, "positive": 0.5},
        "recall": {"negative": 0.0, "positive": 1.0},
    }
    thresholds = {"sets": ["dev"], "rows": 4, "by_threshold": [left]}

    model = read_model(answer(thresholds=thresholds))

    expected = Threshold(0.9, 2, 0.5, 0.5, {"negative": None, "positive": 0.5}, left["recall"])  # type: ignore[arg-type]
    assert model.thresholds == Thresholds(("dev",), 4, (expected,))
    assert read_model(answer(thresholds=None)).thresholds is None
    assert len({model, read_model(answer(thresholds=thresholds))}) == 1


def test_the_reason_and_the_limits() -> None:
    limits = {"max_sentences": 256, "request_timeout": 10.0, "rate_limit": None}
    model, older = (
        read_model(answer(engine="kernels (avx2)", dtype_reason="auto: because", limits=limits)),
        read_model(answer()),
    )

    assert (model.engine, model.dtype, model.dtype_reason) == (
        "kernels (avx2)",
        "int8",
        "auto: because",
    )
    assert model.limits == limits
    assert (older.engine, older.dtype_reason, older.limits) == ("", "", {})
    assert older.thresholds is None
    assert model != older
    assert len({model, older, read_model(answer())}) == 2
