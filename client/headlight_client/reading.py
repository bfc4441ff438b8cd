"""Parses the bytes of an answer into its type.

A missing member or a wrong shape raises one of `MALFORMED`. Unknown members are ignored, so a newer
service may add some.
"""

import io
import json
import zipfile
import zlib
from collections.abc import Mapping
from dataclasses import is_dataclass
from functools import cache
from types import UnionType
from typing import Any, TypeVar, get_args, get_origin, get_type_hints

import numpy as np
from numpy.typing import DTypeLike, NDArray

from headlight_client.answers import (
    Answer,
    ItemError,
    ModelInfo,
    ModelName,
    Prediction,
    Token,
)
from headlight_client.arrays import Attention, AttentionSteps, Attributions, Importance, Thumbnails
from headlight_client.errors import PROBLEM_PREFIX

T = TypeVar("T")

# RuntimeError comes from JSON that is nested too deep, and from an archive with an unknown
# compression or a password.
MALFORMED = (
    *(AttributeError, EOFError, LookupError, OSError, RuntimeError, TypeError, ValueError),
    *(zipfile.BadZipFile, zlib.error),
)


def read_predictions(answer: Answer, count: int) -> list[Prediction | ItemError]:
    """Reads the answer of `/predict` to `count` sentences."""
    content = json.loads(answer.content)
    model = _make(ModelName, content["model"])
    predictions: list[Prediction | ItemError] = [
        _item_error(item["error"]) if "error" in item else _make(Prediction, item, model=model)
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
    """Reads the answer of `/model`; an older service leaves out the last members."""
    return _make(ModelInfo, json.loads(answer.content))


def read_attention(answer: Answer) -> Attention:
    """Reads the archive of one sentence."""
    return _attention(_arrays(answer))


def read_attentions(answer: Answer, count: int) -> list[Attention]:
    """Reads the archive of several sentences."""
    arrays, several = _arrays(answer), []
    for ending in (f"_{number}" for number in range(count)):
        names = [name for name in arrays if name.endswith(ending)]
        several.append(_attention({name.removesuffix(ending): arrays[name] for name in names}))
    return several


def read_thumbnails(answer: Answer) -> Thumbnails:
    """Reads the archive of one sentence with reduced maps."""
    arrays = _arrays(answer)
    kept = {name: arrays[name] for name in ("strongest", "strongest_weights")}
    result = Thumbnails(**_view(arrays), maps=arrays["attention"], **kept)
    names = (len(result.layer_names), len(result.head_names))
    length, size = len(result.tokens), result.maps.shape[-1]
    _check_shape("attention", result.maps, (*names, size, size))
    _check_shape("strongest", result.strongest, (*names, length))
    _check_shape("strongest_weights", result.strongest_weights, (*names, length))
    if not 0 < size <= length or not np.isin(result.strongest, range(length)).all():
        raise ValueError(f"maps of size {size}, or what is looked at, do not fit {length} tokens")
    return result


def read_steps(answer: Answer) -> AttentionSteps:
    """Reads the answer of `/attention/steps`."""
    content = json.loads(answer.content)
    length, size = len(content["tokens"]), len(content["query_vector"])
    if not 0 <= content["query"] < length:
        raise ValueError(f"the query is token {content['query']} of {length}")
    shapes = {
        "query_vector": (size,),
        "keys": (length, size),
        "scores": (length,),
        "weights": (length,),
        "values": (length, size),
        "result": (size,),
    }
    arrays = {name: _array(content, name, shape, np.float32) for name, shape in shapes.items()}
    return _make(AttentionSteps, content, **arrays)


def read_attributions(answer: Answer) -> Attributions:
    """Reads the answer of `/attributions`."""
    content = json.loads(answer.content)
    values = _array(content, "attributions", (len(content["tokens"]),), np.float64)
    return _make(Attributions, content, **_predicted(content), values=values)


def read_importance(answer: Answer) -> Importance:
    """Reads the answer of `/importance`."""
    content = json.loads(answer.content)
    shape = len(content["layers"]), len(content["heads"])
    values = np.array(content["importance"], np.float64).reshape(shape)
    return _make(Importance, content, **_predicted(content), values=values)


def _make(kind: type[T], content: Mapping[str, Any], **converted: object) -> T:
    """Makes an answer type from the members of JSON that it has, some of them converted."""
    hints: dict[str, Any] = _hints(kind)
    made = {
        name: _typed(hints[name], value)
        for name, value in content.items()
        if name in hints and name not in converted
    }
    return kind(**made | converted)


_hints: Any = cache(get_type_hints)  # for a dataclass


def _typed(hint: Any, value: Any) -> Any:  # noqa: ANN401 - of any member
    """Converts the JSON of a member: an object to its answer type, a list to a tuple."""
    kind, inner = get_origin(hint), get_args(hint)
    if is_dataclass(hint):
        return _make(hint, value)  # type: ignore[arg-type]
    if kind is UnionType:
        return None if value is None else _typed(inner[0], value)
    if kind is tuple:
        return tuple(_typed(inner[0], each) for each in value)
    return dict(value) if kind is Mapping else value


def _array(
    content: Mapping[str, Any], name: str, shape: tuple[int, ...], dtype: DTypeLike
) -> NDArray[Any]:
    array = np.array(content[name], dtype)
    _check_shape(name, array, shape)
    return array


def _check_shape(name: str, array: NDArray[Any], shape: tuple[int, ...]) -> None:
    if array.shape != shape:
        raise ValueError(f"{name} has the shape {array.shape}, not {shape}")


def _arrays(answer: Answer) -> dict[str, Any]:
    with np.load(io.BytesIO(answer.content), allow_pickle=False) as archive:
        return dict(archive)


def _attention(arrays: Mapping[str, NDArray[Any]]) -> Attention:
    attention = Attention(**_view(arrays), weights=arrays["attention"])
    names = (attention.layer_names, attention.head_names, attention.tokens, attention.tokens)
    _check_shape("attention", attention.weights, tuple(map(len, names)))
    return attention


def _view(arrays: Mapping[str, NDArray[Any]]) -> dict[str, Any]:
    """Returns what `Attention` and `Thumbnails` both hold, by name."""
    content = {name: array.tolist() for name, array in arrays.items() if array.ndim < 2}
    model = ModelName(*content["model"])
    labels, probabilities = content["labels"], content["probabilities"]
    best = probabilities.index(max(probabilities))
    prediction = Prediction(
        label=labels[best],
        score=probabilities[best],
        probabilities=dict(zip(labels, probabilities, strict=True)),
        token_count=content["token_count"],
        truncated=content["truncated"],
        model=model,
        warnings=tuple(content.get("warnings", ())),
    )
    columns = (content[name] for name in ("tokens", "start", "end", "special"))
    words = (None if word < 0 else word for word in content["word"])
    return {
        "model": model,
        "prediction": prediction,
        "tokens": tuple(Token(*row) for row in zip(*columns, words, strict=True)),
        "layers": tuple(content["layers"]),
        "heads": tuple(content["heads"]),
        "view": content["view"],
        "window": content.get("window"),
        "windows": content.get("windows"),
    }


def _predicted(content: Mapping[str, Any]) -> dict[str, Any]:
    model = _make(ModelName, content["model"])
    return {"model": model, "prediction": _make(Prediction, content["prediction"], model=model)}


def _item_error(content: Mapping[str, Any]) -> ItemError:
    return _make(ItemError, content, type=content["type"].removeprefix(PROBLEM_PREFIX))
