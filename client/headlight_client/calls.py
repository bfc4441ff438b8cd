"""Builds the request of each method and names the reader of its answer.

Both clients build their calls here. They differ only in how they send them.
"""

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Generic, Literal, SupportsIndex, TypeVar

from headlight_client.answers import Answer, ItemError, ModelInfo, Prediction
from headlight_client.attention import Attention, Thumbnails
from headlight_client.attributions import Attributions, Importance
from headlight_client.indices import Indices, one_index, several_indices
from headlight_client.reading import (
    read_attention,
    read_attentions,
    read_attributions,
    read_importance,
    read_model,
    read_predictions,
    read_ready,
    read_steps,
    read_thumbnails,
)
from headlight_client.steps import AttentionSteps

T = TypeVar("T")

Truncation = Literal["right", "left", "error"]
Reading = Literal["right", "left", "error", "window"]
Granularity = Literal["text", "sentence"]
OnError = Literal["request", "item"]
Reduce = Literal["none", "mean", "max", "rollout"]
Level = Literal["token", "word"]
Method = Literal["integrated_gradients", "gradient_x_input"]
# `{"layer": 0, "head": 3}`, or `{"layer": 0}` for all heads of a layer.
HeadMask = Iterable[Mapping[str, SupportsIndex]]

_JSON = "application/json"
_NPZ = "application/x-npz"


@dataclass(frozen=True, slots=True)
class Call(Generic[T]):
    """One request to the service. It has no side effects, so it can be sent again.

    Args:
        method: of the request.
        path: of the route.
        read: turns an answer of status 200 into the result.
        accept: media type of the answer.
        body: JSON; hidden from `repr`, because it holds the sentences.
        when_away: if set, the call is tried once, and this is the result when the service is
            away. None raises an error after the last attempt.
    """

    method: str
    path: str
    read: Callable[[Answer], T]
    accept: str = _JSON
    body: bytes | None = field(default=None, repr=False)
    when_away: T | None = None


def predict_call(
    sentences: Sequence[str | None],
    *,
    truncation: Reading,
    on_error: OnError,
    granularity: Granularity = "text",
    abstain_below: float | None = None,
    head_mask: HeadMask | None = None,
    omit: Indices | None = None,
) -> Call[list[Prediction | ItemError]]:
    """Asks for labels."""
    texts = texts_of(sentences)
    read = partial(read_predictions, count=len(texts))
    # An older service does not know these.
    newer = _given(
        granularity=None if granularity == "text" else granularity,
        abstain_below=abstain_below,
        **_interventions(head_mask, omit),
    )
    return _post(
        "/predict", read, sentences=texts, truncation=truncation, on_error=on_error, **newer
    )


def attention_call(
    sentence: str,
    *,
    layers: Indices | None,
    heads: Indices | None,
    reduce: Reduce,
    level: Level,
    truncation: Reading,
    window: SupportsIndex | None = None,
    head_mask: HeadMask | None = None,
    omit: Indices | None = None,
) -> Call[Attention]:
    """Asks for the attention of one sentence."""
    options = _options(layers, heads, window, reduce=reduce, level=level, truncation=truncation)
    options |= _interventions(head_mask, omit)
    text = _one("attention", sentence, "use attentions for several")
    return _post("/attention", read_attention, accept=_NPZ, sentence=text, **options)


def attentions_call(
    sentences: Sequence[str],
    *,
    layers: Indices | None,
    heads: Indices | None,
    reduce: Reduce,
    level: Level,
    truncation: Reading,
    window: SupportsIndex | None = None,
    head_mask: HeadMask | None = None,
) -> Call[list[Attention]]:
    """Asks for the attention of several sentences."""
    texts = texts_of(sentences)
    options = _options(layers, heads, window, reduce=reduce, level=level, truncation=truncation)
    options |= _interventions(head_mask, None)
    read = partial(read_attentions, count=len(texts))
    return _post("/attention", read, accept=_NPZ, sentences=texts, **options)


def thumbnails_call(
    sentence: str,
    *,
    size: SupportsIndex,
    special: bool,
    layers: Indices | None,
    heads: Indices | None,
    reduce: Reduce,
    level: Level,
    truncation: Reading,
    window: SupportsIndex | None = None,
    head_mask: HeadMask | None = None,
    omit: Indices | None = None,
) -> Call[Thumbnails]:
    """Asks for the reduced maps of one sentence."""
    options = _options(layers, heads, window, reduce=reduce, level=level, truncation=truncation)
    options |= _interventions(head_mask, omit)
    options |= {"thumbnail": one_index("size", size), "special": bool(special)}
    text = _one("thumbnails", sentence, "call it once for each")
    return _post("/attention", read_thumbnails, accept=_NPZ, sentence=text, **options)


def attention_steps_call(
    sentence: str,
    *,
    layer: SupportsIndex,
    head: SupportsIndex,
    query: SupportsIndex,
    truncation: Reading,
    window: SupportsIndex | None = None,
    head_mask: HeadMask | None = None,
    omit: Indices | None = None,
) -> Call[AttentionSteps]:
    """Asks how one head makes the weights that one token gives."""
    place = {"layer": layer, "head": head, "query": query}
    options: dict[str, Any] = {name: one_index(name, each) for name, each in place.items()}
    if window is not None:
        options["window"] = one_index("window", window)
    options |= _interventions(head_mask, omit)
    text = _one("attention_steps", sentence, "call it once for each")
    return _post("/attention/steps", read_steps, sentence=text, truncation=truncation, **options)


def attributions_call(
    sentence: str,
    *,
    label: str | None,
    method: Method,
    steps: SupportsIndex | None,
    level: Level,
    truncation: Truncation,
) -> Call[Attributions]:
    """Asks what each token adds to the answer."""
    options = _given(
        label=label,
        method=method,
        steps=None if steps is None else one_index("steps", steps),
        level=level,
        truncation=truncation,
    )
    text = _one("attributions", sentence, "call it once for each")
    return _post("/attributions", read_attributions, sentence=text, **options)


def importance_call(
    sentence: str, *, label: str | None, truncation: Truncation
) -> Call[Importance]:
    """Asks how much the answer depends on each head."""
    options = _given(label=label, truncation=truncation)
    text = _one("importance", sentence, "call it once for each")
    return _post("/importance", read_importance, sentence=text, **options)


def model_call() -> Call[ModelInfo]:
    """Asks which model answers."""
    return Call("GET", "/model", read_model)


def ready_call() -> Call[bool]:
    """Asks whether the service is ready."""
    return Call("GET", "/health/ready", read_ready, when_away=False)


def _options(
    layers: Indices | None, heads: Indices | None, window: SupportsIndex | None, **options: str
) -> dict[str, object]:
    chosen: dict[str, object] = {**options}
    if window is not None:
        chosen["window"] = one_index("window", window)
    if layers is not None:
        chosen["layer"] = several_indices("layers", layers)
    if heads is not None:
        chosen["head"] = several_indices("heads", heads)
    return chosen


def _interventions(head_mask: HeadMask | None, omit: Indices | None) -> dict[str, Any]:
    """What is switched off and left out; an older service does not know these."""
    off = None
    if head_mask is not None:
        off = [
            {name: one_index("head_mask", number) for name, number in each.items()}
            for each in head_mask
        ]
    return _given(head_mask=off, omit=None if omit is None else several_indices("omit", omit))


def _given(**options: Any) -> dict[str, Any]:  # noqa: ANN401 - what JSON holds
    """Keeps the options with a value; the service has defaults for the rest."""
    return {name: value for name, value in options.items() if value is not None}


def texts_of(sentences: Sequence[str | None]) -> list[str | None]:
    """Returns the sentences as they are sent.

    Raises:
        TypeError: it is one string.
    """
    if isinstance(sentences, str):
        raise TypeError("sentences is one string: put it in a list")
    return [_text(sentence) for sentence in sentences]


def _one(method: str, sentence: object, instead: str) -> str | None:
    """Returns the sentence as it is sent.

    Raises:
        TypeError: it is a list or another collection.
    """
    if isinstance(sentence, Iterable) and not isinstance(sentence, str | bytes):
        kind = type(sentence).__name__
        raise TypeError(f"{method} takes one sentence, got a {kind}: {instead}")
    return _text(sentence)


def _text(sentence: object) -> str | None:
    """Returns the sentence, or None if it is not a string; the service then names its index.

    A table with missing values holds NaN among its texts. JSON has no NaN, so one missing value
    would make the whole body invalid.
    """
    return sentence if isinstance(sentence, str) else None


def _post(
    path: str, read: Callable[[Answer], T], *, accept: str = _JSON, **content: object
) -> Call[T]:
    return Call("POST", path, read, accept, as_json(content))


def as_json(content: object) -> bytes:
    """Writes JSON without spaces, in UTF-8."""
    text = json.dumps(content, allow_nan=False, ensure_ascii=False, separators=(",", ":"))
    # A lone surrogate has no UTF-8. It is sent as a JSON escape, so that the service can say which
    # sentence is wrong.
    return text.encode("utf-8", "backslashreplace")
