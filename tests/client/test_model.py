"""The answer of `/model`, from newer and from older services."""

import json

import httpx

from headlight_client.answers import Answer, Threshold, Thresholds
from headlight_client.reading import read_model

# What services answered before they told reasons, limits and thresholds.
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


def test_the_reason_and_the_limits() -> None:
    limits = {"max_sentences": 256, "request_timeout": 10.0, "rate_limit": None}

    model = read_model(answer(dtype_reason="auto: because", limits=limits))

    assert (model.dtype, model.dtype_reason) == ("int8", "auto: because")
    assert model.limits == limits


def test_an_older_service_tells_none_of_them() -> None:
    model = read_model(answer())

    assert (model.dtype_reason, model.limits, model.thresholds) == ("", {}, None)


def test_thresholds() -> None:
    left = {
        "threshold": 0.9,
        "rows": 2,
        "share": 0.5,
        "accuracy": 0.5,
        "precision": {"negative": None, "positive": 0.5},
        "recall": {"negative": 0.0, "positive": 1.0},
    }
    told = {"sets": ["dev"], "rows": 4, "by_threshold": [left]}

    model = read_model(answer(thresholds=told))

    expected = Threshold(0.9, 2, 0.5, 0.5, {"negative": None, "positive": 0.5}, left["recall"])  # type: ignore[arg-type]
    assert model.thresholds == Thresholds(("dev",), 4, (expected,))
    assert read_model(answer(thresholds=None)).thresholds is None
    assert len({model, read_model(answer(thresholds=told))}) == 1


def test_models_with_limits_can_be_told_apart_and_kept_in_sets() -> None:
    one, other = (read_model(answer(limits={"max_sentences": most})) for most in (1, 2))

    assert one != other
    assert len({one, other, read_model(answer(limits={"max_sentences": 1}))}) == 2
