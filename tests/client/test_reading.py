"""Answers with status 200: of older services, of none, and damaged ones: one error for all."""

import io
import json
from typing import Any

import numpy as np
import pytest

from headlight_client import Prediction, Threshold, Thresholds
from headlight_client.answers import Answer
from headlight_client.reading import (
    MALFORMED,
    read_attention,
    read_attentions,
    read_model,
    read_predictions,
    read_ready,
    read_steps,
    read_thumbnails,
)
from tests.client.scripted import predicted


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"<html>a page</html>",
        b"[]",
        b"{}",
        b'{"model": {"name": "m"}, "predictions": []}',
        b'{"model": {"name": "m", "version": "v"}, "predictions": [{"label": "x"}]}',
        b"\xff",
        # Fewer or more than were asked for.
        predicted().content,
        predicted("positive", "negative").content,
        b"[" * 100_000,
    ],
    # The text of a case would make the name of one longer than the system allows.
    ids=range(10),
)
def test_what_is_no_prediction(content: bytes) -> None:
    with pytest.raises(MALFORMED):
        read_predictions(Answer(200, {}, content), 1)


@pytest.mark.parametrize(
    "content", [b"", b'"ready"', b"{}", b'{"status": "live"}', b'{"status": ["ready"]}']
)
def test_what_is_no_readiness(content: bytes) -> None:
    with pytest.raises(MALFORMED):
        read_ready(Answer(200, {}, content))


def archive(**changes: object) -> dict[str, object]:
    """The arrays of one sentence of two tokens."""
    return {
        "attention": np.full((1, 1, 2, 2), 0.5, np.float32),
        "tokens": np.array(["a", "b"]),
        "start": np.array([0, 2]),
        "end": np.array([1, 3]),
        "special": np.array([False, True]),
        "word": np.array([0, -1]),
        "layers": np.array([3]),
        "heads": np.array([4]),
        "view": np.array("raw"),
        "labels": np.array(["x", "y"]),
        "probabilities": np.array([0.25, 0.75]),
        "token_count": np.array(2),
        "truncated": np.array(False),
        "model": np.array(["m", "v"]),
        **changes,
    }


def npz(arrays: dict[str, object]) -> bytes:
    buffer = io.BytesIO()
    np.savez(buffer, **arrays)  # type: ignore[arg-type]
    return buffer.getvalue()


def test_an_archive() -> None:
    attention = read_attention(Answer(200, {}, npz(archive())))
    assert (attention.prediction.label, attention.prediction.score) == ("y", 0.75)
    assert attention.tokens[1].word is None
    assert (attention.layers, attention.heads) == ((3,), (4,))
    several = {f"{name}_{number}": each for number in (0, 1) for name, each in archive().items()}
    assert len(read_attentions(Answer(200, {}, npz(several)), 2)) == 2
    with pytest.raises(MALFORMED):
        read_attentions(Answer(200, {}, npz(several)), 3)


def packed_otherwise(position: int, value: int) -> bytes:
    """The archive with one byte changed in each file's header and directory entry."""
    content = bytearray(npz(archive()))
    for mark, offset in ((b"PK\x03\x04", position), (b"PK\x01\x02", position + 2)):
        at = content.find(mark)
        while at >= 0:
            content[at + offset] = value
            at = content.find(mark, at + 4)
    return bytes(content)


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"{}",
        npz(archive())[:-30],
        packed_otherwise(8, 97),  # an unknown compression
        packed_otherwise(6, 1),  # a password
        npz(archive()).replace(b"\x93NUMPY", b"\x93NUMPX"),
        npz({name: array for name, array in archive().items() if name != "word"}),
        npz(archive(attention=np.zeros((1, 1, 3, 3), np.float32))),
        npz(archive(attention=np.zeros((2, 1, 2, 2), np.float32))),
        npz(archive(labels=np.array(["x"]))),
        # Nothing is unpickled, whatever it is.
        npz(archive(tokens=np.array(["a", None], object))),
    ],
)
def test_what_is_no_archive(content: bytes) -> None:
    with pytest.raises(MALFORMED):
        read_attention(Answer(200, {}, content))


STEPS: dict[str, Any] = {
    "model": {"name": "m", "version": "v"},
    "tokens": [{"text": "good", "start": 0, "end": 4, "special": False, "word": 0}],
    "layer": 0, "head": 0, "query": 0, "scale": 0.5, "query_vector": [1.0, 2.0],
    "keys": [[1.0, 2.0]], "scores": [2.5], "weights": [1.0], "values": [[3.0, 4.0]],
    "result": [3.0, 4.0],
}  # fmt: skip


@pytest.mark.parametrize(
    "change",
    [
        {"keys": [[1.0, 2.0], [1.0, 2.0]]},
        {"keys": [[1.0]]},
        {"scores": [2.5, 1.0]},
        {"weights": []},
        {"values": [3.0, 4.0]},
        {"result": [[3.0, 4.0]]},
        {"query": 1},
        {"query": None},
        {"tokens": []},
        {"scale": None, "model": {}},
    ],
)
def test_what_is_no_step(change: dict[str, Any]) -> None:
    whole, content = (json.dumps(each).encode() for each in (STEPS, STEPS | change))
    assert read_steps(Answer(200, {}, whole)).result.tolist() == [3.0, 4.0]
    with pytest.raises(MALFORMED):
        read_steps(Answer(200, {}, content))


SMALL = {
    "attention": np.ones((1, 1, 1, 1), np.float32),
    "strongest": np.zeros((1, 1, 2), np.int32),
    "strongest_weights": np.ones((1, 1, 2), np.float32),
}


@pytest.mark.parametrize(
    "change",
    [
        {"attention": np.ones((1, 1, 1, 2), np.float32)},
        {"attention": np.ones((1, 1, 3, 3), np.float32)},
        {"attention": np.ones((1, 1, 0, 0), np.float32)},
        {"attention": np.float32(1)},
        {"strongest": np.zeros((1, 1, 3), np.int32)},
        {"strongest": np.full((1, 1, 2), 2, np.int32)},
        {"strongest": np.full((1, 1, 2), -1, np.int32)},
        {"strongest_weights": np.ones((1, 2), np.float32)},
        {"heads": np.array([0, 1])},
    ],
)
def test_what_is_no_thumbnail(change: dict[str, Any]) -> None:
    whole = Answer(200, {}, npz(archive(**SMALL)))
    assert read_thumbnails(whole).strongest.tolist() == [[[0, 0]]]
    for arrays in (archive(**SMALL | change), archive()):
        with pytest.raises(MALFORMED):
            read_thumbnails(Answer(200, {}, npz(arrays)))


# The answer of `/model` before it had reasons, limits and thresholds.
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


def test_a_model_of_an_older_and_of_a_newer_service() -> None:
    quality = {"threshold": 0.9, "rows": 2, "share": 0.5, "accuracy": 0.5}
    by_label: dict[str, Any] = {"precision": {"negative": None}, "recall": {"negative": 0.0}}
    limits = {"max_sentences": 256, "request_timeout": 10.0, "rate_limit": None}
    thresholds = {"sets": ["dev"], "rows": 4, "by_threshold": [quality | by_label]}
    newer = {"engine": "kernels (avx2)", "limits": limits, "thresholds": thresholds}
    model, older = (
        read_model(Answer(200, {}, json.dumps(OLDER | more).encode())) for more in (newer, {})
    )
    assert (model.engine, model.limits) == ("kernels (avx2)", limits)
    assert model.thresholds == Thresholds(("dev",), 4, (Threshold(0.9, 2, 0.5, 0.5, **by_label),))
    assert (older.engine, older.dtype_reason, older.limits, older.thresholds) == ("", "", {}, None)
    assert older.language is None
    assert len({model, older}) == 2  # they have a hash


def test_warnings() -> None:
    content = json.loads(predicted("positive").content)
    content["predictions"][0]["warnings"] = ["not-english"]
    (found,) = read_predictions(Answer(200, {}, json.dumps(content).encode()), 1)
    assert isinstance(found, Prediction)
    warned = npz(archive(warnings=np.array(["not-english"])))
    for prediction in (found, read_attention(Answer(200, {}, warned)).prediction):
        assert prediction.warnings == ("not-english",)
