"""Parses the bytes of an answer into its type.

A missing member or a wrong shape raises one of `MALFORMED`. Unknown members are ignored, so a newer
service may add some.
"""

import io
import json
import zipfile
import zlib
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from headlight_client.answers import (
    Answer,
    ItemError,
    Metric,
    ModelInfo,
    ModelName,
    Prediction,
    Sentence,
    Threshold,
    Thresholds,
    Token,
)
from headlight_client.attention import Attention, Thumbnails
from headlight_client.attributions import Attributions, Importance
from headlight_client.problems import read_item_error
from headlight_client.steps import AttentionSteps

# RuntimeError comes from JSON that is nested too deep, and from an archive with an unknown
# compression or a password.
MALFORMED = (
    *(AttributeError, EOFError, LookupError, OSError, RuntimeError, TypeError, ValueError),
    *(zipfile.BadZipFile, zlib.error),
)


def read_predictions(answer: Answer, count: int) -> list[Prediction | ItemError]:
    """Reads the answer of `/predict`."""
    content = json.loads(answer.content)
    model = _model_name(content["model"])
    predictions: list[Prediction | ItemError] = [
        read_item_error(item["error"]) if "error" in item else _prediction(item, model)
        for item in content["predictions"]
    ]
    if len(predictions) != count:
        raise ValueError(f"there are {len(predictions)} predictions of {count} sentences")
    return predictions


def read_ready(answer: Answer) -> bool:
    """Reads the answer of `/health/ready`; another server may answer with status 200 too."""
    status = json.loads(answer.content)["status"]
    if status != "ready":
        raise ValueError(f"the status is {status!r}, not 'ready'")
    return True


def read_model(answer: Answer) -> ModelInfo:
    """Reads the answer of `/model`."""
    content = json.loads(answer.content)
    return ModelInfo(
        name=content["name"],
        version=content["version"],
        architecture=content["architecture"],
        labels=tuple(content["labels"]),
        num_layers=content["num_layers"],
        num_heads=content["num_heads"],
        hidden_size=content["hidden_size"],
        parameters=content["parameters"],
        max_length=content["max_length"],
        temperature=content["temperature"],
        device=content["device"],
        dtype=content["dtype"],
        metrics=tuple(_metric(metric) for metric in content["metrics"]),
        # An older service tells none of these.
        dtype_reason=content.get("dtype_reason", ""),
        limits=dict(content.get("limits", {})),
        thresholds=_thresholds(content.get("thresholds")),
    )


def read_attention(answer: Answer) -> Attention:
    """Reads the archive of one sentence."""
    with _archive(answer) as arrays:
        return _attention(arrays, "")


def read_attentions(answer: Answer, count: int) -> list[Attention]:
    """Reads the archive of several sentences."""
    with _archive(answer) as arrays:
        return [_attention(arrays, f"_{number}") for number in range(count)]


def read_thumbnails(answer: Answer) -> Thumbnails:
    """Reads the archive of one sentence with reduced maps."""
    with _archive(answer) as arrays:
        found = Thumbnails(
            **_view(arrays, ""),
            maps=arrays["attention"],
            strongest=arrays["strongest"],
            strongest_weights=arrays["strongest_weights"],
        )
    names = (len(found.layer_names), len(found.head_names))
    length, size = len(found.tokens), found.maps.shape[-1]
    if found.maps.shape != (*names, size, size) or not 0 < size <= length:
        raise ValueError(f"the maps of {length} tokens have the shape {found.maps.shape}")
    of_each = {found.strongest.shape, found.strongest_weights.shape}
    if of_each != {(*names, length)} or not np.isin(found.strongest, range(length)).all():
        raise ValueError(f"what {length} tokens look at has the shapes {of_each}")
    return found


def read_steps(answer: Answer) -> AttentionSteps:
    """Reads the answer of `/attention/steps`."""
    content = json.loads(answer.content)
    tokens = tuple(_token(token) for token in content["tokens"])
    length, size = len(tokens), len(content["query_vector"])

    def numbers(name: str, *shape: int) -> NDArray[np.float32]:
        found = np.array(content[name], np.float32)
        if found.shape != shape:
            raise ValueError(f"{name} has the shape {found.shape}, not {shape}")
        return found

    if not 0 <= content["query"] < length:
        raise ValueError(f"the query is token {content['query']} of {length}")
    return AttentionSteps(
        model=_model_name(content["model"]),
        tokens=tokens,
        layer=content["layer"],
        head=content["head"],
        query=content["query"],
        scale=content["scale"],
        query_vector=numbers("query_vector", size),
        keys=numbers("keys", length, size),
        scores=numbers("scores", length),
        weights=numbers("weights", length),
        values=numbers("values", length, size),
        result=numbers("result", size),
        window=content.get("window"),
        windows=content.get("windows"),
    )


def read_attributions(answer: Answer) -> Attributions:
    """Reads the answer of `/attributions`."""
    content = json.loads(answer.content)
    model = _model_name(content["model"])
    tokens = tuple(_token(token) for token in content["tokens"])
    values = np.array(content["attributions"], np.float64)
    if values.shape != (len(tokens),):
        raise ValueError(f"the attributions have the shape {values.shape}")
    return Attributions(
        model=model,
        prediction=_prediction(content["prediction"], model),
        tokens=tokens,
        values=values,
        label=content["label"],
        view=content["view"],
        steps=content["steps"],
        value=content["value"],
        baseline_value=content["baseline_value"],
        gap=content["gap"],
    )


def read_importance(answer: Answer) -> Importance:
    """Reads the answer of `/importance`."""
    content = json.loads(answer.content)
    model = _model_name(content["model"])
    layers, heads = tuple(content["layers"]), tuple(content["heads"])
    return Importance(
        model=model,
        prediction=_prediction(content["prediction"], model),
        label=content["label"],
        layers=layers,
        heads=heads,
        values=np.array(content["importance"], np.float64).reshape(len(layers), len(heads)),
    )


def _archive(answer: Answer) -> Any:  # noqa: ANN401 - its type has another name in older numpy
    return np.load(io.BytesIO(answer.content), allow_pickle=False)


def _attention(arrays: Mapping[str, NDArray[Any]], ending: str) -> Attention:
    attention = Attention(**_view(arrays, ending), weights=arrays[f"attention{ending}"])
    names = (attention.layer_names, attention.head_names, attention.tokens, attention.tokens)
    if attention.weights.shape != tuple(map(len, names)):
        raise ValueError(f"the weights have the shape {attention.weights.shape}")
    return attention


def _view(arrays: Mapping[str, NDArray[Any]], ending: str) -> dict[str, Any]:
    """What `Attention` and `Thumbnails` both hold, by name."""
    name, version = arrays[f"model{ending}"].tolist()
    labels = arrays[f"labels{ending}"].tolist()
    probabilities = arrays[f"probabilities{ending}"].tolist()
    best = probabilities.index(max(probabilities))
    model = ModelName(name, version)
    prediction = Prediction(
        label=labels[best],
        score=probabilities[best],
        probabilities=dict(zip(labels, probabilities, strict=True)),
        token_count=int(arrays[f"token_count{ending}"]),
        truncated=bool(arrays[f"truncated{ending}"]),
        model=model,
    )
    columns = (arrays[name + ending].tolist() for name in ("tokens", "start", "end", "special"))
    words = (None if word < 0 else word for word in arrays[f"word{ending}"].tolist())
    return {
        "model": model,
        "prediction": prediction,
        "tokens": tuple(Token(*row) for row in zip(*columns, words, strict=True)),
        "layers": tuple(arrays[f"layers{ending}"].tolist()),
        "heads": tuple(arrays[f"heads{ending}"].tolist()),
        "view": str(arrays[f"view{ending}"]),
        "window": _number(arrays, f"window{ending}"),
        "windows": _number(arrays, f"windows{ending}"),
    }


def _number(arrays: Mapping[str, NDArray[Any]], name: str) -> int | None:
    return int(arrays[name]) if name in arrays else None


def _prediction(content: Mapping[str, Any], model: ModelName) -> Prediction:
    sentences = content.get("sentences")
    return Prediction(
        label=content["label"],
        score=content["score"],
        probabilities=dict(content["probabilities"]),
        token_count=content["token_count"],
        truncated=content["truncated"],
        model=model,
        windows=content.get("windows"),
        sentences=tuple(map(_sentence, sentences)) if sentences is not None else None,
    )


def _sentence(content: Mapping[str, Any]) -> Sentence:
    return Sentence(
        start=content["start"],
        end=content["end"],
        label=content["label"],
        score=content["score"],
        probabilities=dict(content["probabilities"]),
        token_count=content["token_count"],
        truncated=content["truncated"],
    )


def _token(content: Mapping[str, Any]) -> Token:
    return Token(*(content[name] for name in ("text", "start", "end", "special", "word")))


def _model_name(content: Mapping[str, Any]) -> ModelName:
    return ModelName(content["name"], content["version"])


def _metric(content: Mapping[str, Any]) -> Metric:
    low, high = content["interval"]
    return Metric(
        name=content["name"],
        rows=content["rows"],
        accuracy=content["accuracy"],
        interval=(low, high),
        log_loss=content["log_loss"],
        ece=content["ece"],
    )


def _thresholds(content: Mapping[str, Any] | None) -> Thresholds | None:
    if content is None:
        return None
    return Thresholds(
        sets=tuple(content["sets"]),
        rows=content["rows"],
        by_threshold=tuple(
            Threshold(
                threshold=left["threshold"],
                rows=left["rows"],
                share=left["share"],
                accuracy=left["accuracy"],
                precision=dict(left["precision"]),
                recall=dict(left["recall"]),
            )
            for left in content["by_threshold"]
        ),
    )
