"""From the arguments of a method to the request that it sends and the reader of its answer.

Both clients make their calls here and differ only in how they carry them out.
"""

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Generic, Literal, TypeVar

from headlight_client.answers import ItemError, ModelInfo, Prediction
from headlight_client.attention import Attention
from headlight_client.attributions import Attributions, Importance
from headlight_client.reading import (
    Answer,
    read_attention,
    read_attentions,
    read_attributions,
    read_importance,
    read_model,
    read_predictions,
)

T = TypeVar("T")

Truncation = Literal["right", "left", "error"]
OnError = Literal["request", "item"]
Reduce = Literal["none", "mean", "max", "rollout"]
Level = Literal["token", "word"]
Method = Literal["integrated_gradients", "gradient_x_input"]

_JSON = "application/json"
_NPZ = "application/x-npz"


@dataclass(frozen=True, slots=True)
class Call(Generic[T]):
    """One question to the service. None has side effects, so that each can be asked again.

    Args:
        method: of the request.
        path: of the route.
        read: makes the answer of status 200 what the caller gets.
        accept: the form that the answer is wanted in.
        body: JSON.
        when_away: what the caller gets where the service is away, asked once; None raises an
            error after the last try.
    """

    method: str
    path: str
    read: Callable[[Answer], T]
    accept: str = _JSON
    body: bytes | None = None
    when_away: T | None = None


def predict_call(
    sentences: Sequence[str], *, truncation: Truncation, on_error: OnError
) -> Call[list[Prediction | ItemError]]:
    """Asks for labels."""
    return _post(
        "/predict",
        read_predictions,
        sentences=_several(sentences),
        truncation=truncation,
        on_error=on_error,
    )


def attention_call(
    sentence: str,
    *,
    layers: Sequence[int] | None,
    heads: Sequence[int] | None,
    reduce: Reduce,
    level: Level,
    truncation: Truncation,
) -> Call[Attention]:
    """Asks for the attention of one sentence."""
    options = _options(layers, heads, reduce=reduce, level=level, truncation=truncation)
    return _post("/attention", read_attention, accept=_NPZ, sentence=sentence, **options)


def attentions_call(
    sentences: Sequence[str],
    *,
    layers: Sequence[int] | None,
    heads: Sequence[int] | None,
    reduce: Reduce,
    level: Level,
    truncation: Truncation,
) -> Call[list[Attention]]:
    """Asks for the attention of several sentences."""
    texts = _several(sentences)
    options = _options(layers, heads, reduce=reduce, level=level, truncation=truncation)
    read = partial(read_attentions, count=len(texts))
    return _post("/attention", read, accept=_NPZ, sentences=texts, **options)


def attributions_call(
    sentence: str,
    *,
    label: str | None,
    method: Method,
    steps: int | None,
    level: Level,
    truncation: Truncation,
) -> Call[Attributions]:
    """Asks what each token adds."""
    options = _given(
        sentence=sentence,
        label=label,
        method=method,
        steps=steps,
        level=level,
        truncation=truncation,
    )
    return _post("/attributions", read_attributions, **options)


def importance_call(
    sentence: str, *, label: str | None, truncation: Truncation
) -> Call[Importance]:
    """Asks what depends on each head."""
    options = _given(label=label)
    return _post(
        "/importance", read_importance, sentence=sentence, truncation=truncation, **options
    )


def model_call() -> Call[ModelInfo]:
    """Asks which model answers."""
    return Call("GET", "/model", read_model)


def ready_call() -> Call[bool]:
    """Asks whether requests should be sent."""
    return Call("GET", "/health/ready", lambda _: True, when_away=False)


def _options(
    layers: Sequence[int] | None, heads: Sequence[int] | None, **options: str
) -> dict[str, object]:
    chosen: dict[str, object] = {**options}
    # Numbers of numpy are no numbers to JSON.
    if layers is not None:
        chosen["layer"] = [int(layer) for layer in layers]
    if heads is not None:
        chosen["head"] = [int(head) for head in heads]
    return chosen


def _given(**options: Any) -> dict[str, Any]:  # noqa: ANN401 - what JSON holds
    """What has a value; the service knows what the rest means."""
    return {name: value for name, value in options.items() if value is not None}


def _several(sentences: Sequence[str]) -> list[str]:
    if isinstance(sentences, str):
        raise TypeError("sentences is one string: put it in a list")
    return list(sentences)


def _post(
    path: str, read: Callable[[Answer], T], *, accept: str = _JSON, **content: object
) -> Call[T]:
    text = json.dumps(content, ensure_ascii=False, separators=(",", ":"))
    # What has no UTF-8, half of a surrogate pair, becomes the escape that JSON has for it: it is
    # for the service to say what is wrong with which sentence.
    return Call("POST", path, read, accept, text.encode("utf-8", "backslashreplace"))
