"""Builds the request of each method of both clients, and names the reader of its answer."""

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Generic, Literal, SupportsIndex, TypedDict, TypeVar, Unpack

from headlight_client import reading
from headlight_client.answers import Answer, ItemError, ModelInfo, Prediction
from headlight_client.arrays import Attention, AttentionSteps, Attributions, Importance, Thumbnails
from headlight_client.config import Indices, one_index, several_indices

T = TypeVar("T")

Truncation = Literal["right", "left", "error"]
Reading = Literal["right", "left", "error", "window"]
Granularity = Literal["text", "sentence"]
OnError = Literal["request", "item"]
Reduce = Literal["none", "mean", "max", "rollout"]
Level = Literal["token", "word"]
UnitLevel = Literal["token", "word", "sentence"]
Method = Literal["integrated_gradients", "gradient_x_input", "leave_out"]
HeadMask = Iterable[Mapping[str, SupportsIndex]]


class PredictOptions(TypedDict, total=False):
    """The options of `predict` that do not change the type of its result."""

    progress: bool
    truncation: Reading
    granularity: Granularity
    labels: Sequence[str] | None
    abstain_below: float | None
    head_mask: HeadMask | None
    omit: Indices | None


class AsyncPredictOptions(PredictOptions, total=False):
    """The options of `AsyncClient.predict`."""

    concurrency: int


class ViewOptions(TypedDict, total=False):
    """The options of `attention`, which other methods take too."""

    layers: Indices | None
    heads: Indices | None
    reduce: Reduce
    level: Level
    truncation: Reading
    window: SupportsIndex | None
    labels: Sequence[str] | None
    head_mask: HeadMask | None
    omit: Indices | None


_JSON = "application/json"
_NPZ = "application/x-npz"


@dataclass(frozen=True, slots=True)
class Call(Generic[T]):
    """One request to the service. It has no side effects, so it can be sent again.

    With `when_away` it is tried once, and that is the result when the service is away.
    """

    method: str
    path: str
    read: Callable[[Answer], T]  # the result, from an answer of status 200
    accept: str = _JSON
    body: bytes | None = field(default=None, repr=False)  # it holds the sentences
    when_away: T | None = None


def predict(sentences: Sequence[str | None], **options: Any) -> Call[list[Prediction | ItemError]]:  # noqa: ANN401
    """Asks for labels."""
    texts = texts_of(sentences)
    sent = {"truncation": "right", "on_error": "request", **_converted(options)}
    if sent.get("granularity") == "text":
        del sent["granularity"]  # an older service does not know it
    read = partial(reading.read_predictions, count=len(texts))
    return _post("/predict", read, sentences=texts, **sent)


def attention(
    sentence: str,
    *,
    layers: Indices | None = None,
    heads: Indices | None = None,
    reduce: Reduce = "none",
    level: Level = "token",
    truncation: Reading = "right",
    window: SupportsIndex | None = None,
    labels: Sequence[str] | None = None,
    head_mask: HeadMask | None = None,
    omit: Indices | None = None,
) -> Call[Attention]:
    """Returns the attention weights of one sentence, or a view of them.

    Args:
        sentence: not blank.
        layers, heads: indices; all if None.
        reduce: `mean` or `max` over the chosen heads of each layer; `rollout` merges the chosen
            layers and heads into one map (Abnar and Zuidema 2020).
        level: `token`, or `word`: rows and columns are words.
        truncation: as in `predict`.
        window: index of the window to show, with `truncation` `window`; the first if None.
        labels, head_mask: as in `predict`.
        omit: indices of tokens that are left out; special tokens stay.
    """
    return _of_one("attention", "/attention", reading.read_attention, locals())


def attentions(sentences: Sequence[str], **options: Unpack[ViewOptions]) -> Call[list[Attention]]:
    """Returns the attention weights of several sentences, in order, from one request.

    One bad sentence fails the whole request. The weights of all sentences together must stay within
    the service's limit. The options are those of `attention`, without `omit`.
    """
    texts = texts_of(sentences)
    read = partial(reading.read_attentions, count=len(texts))
    return _post("/attention", read, sentences=texts, **_converted(options))


def thumbnails(
    sentence: str,
    *,
    size: SupportsIndex = 48,
    special: bool = True,
    **options: Unpack[ViewOptions],
) -> Call[Thumbnails]:
    """Returns the maps of one sentence reduced to few rows and columns.

    They show all heads of a long text in little memory, with what each token looks at most. A map
    has at most `size` rows and columns, from 8; `special` False leaves special tokens out. The
    other options are those of `attention`.
    """
    given = {"sentence": sentence, "size": size, "special": bool(special), **options}
    return _of_one("thumbnails", "/attention", reading.read_thumbnails, given)


def attention_steps(
    sentence: str,
    *,
    layer: SupportsIndex,
    head: SupportsIndex,
    query: SupportsIndex,
    **options: Unpack[ViewOptions],
) -> Call[AttentionSteps]:
    """Returns how one head makes the weights that one token gives, from its queries and keys.

    `query` is the token that gives the weights, as `attention` numbers tokens. The options are
    `truncation`, `window`, `head_mask` and `omit` of `attention`.
    """
    given = {"sentence": sentence, "layer": layer, "head": head, "query": query, **options}
    return _of_one("attention_steps", "/attention/steps", reading.read_steps, given)


def attributions(
    sentence: str,
    *,
    label: str | None = None,
    labels: Sequence[str] | None = None,
    method: Method = "integrated_gradients",
    steps: SupportsIndex | None = None,
    level: UnitLevel = "token",
    truncation: Reading = "right",
) -> Call[Attributions]:
    """Returns what each token, word or sentence adds to the log-odds of a label.

    Args:
        sentence: not blank.
        label: to explain; the predicted one if None.
        labels: as in `predict`; the log-odds are those among them.
        method: `integrated_gradients` (Sundararajan, Taly and Yan 2017); the quicker and rougher
            `gradient_x_input`; or `leave_out`: what changes without each, in `units`.
        steps: nodes of the integral; the service's default if None.
        level: `token`, `word`, or with `leave_out` `sentence`.
        truncation: as in `predict`; `window` only with `leave_out`.
    """
    return _of_one("attributions", "/attributions", reading.read_attributions, locals())


def importance(
    sentence: str,
    *,
    label: str | None = None,
    labels: Sequence[str] | None = None,
    truncation: Truncation = "right",
) -> Call[Importance]:
    """Returns how much the log-odds of a label depend on each head.

    The measure is that of Michel, Levy and Neubig 2019. Arguments are those of `attributions`.
    """
    return _of_one("importance", "/importance", reading.read_importance, locals())


def model() -> Call[ModelInfo]:
    """Describes the served model, with its recorded measurements."""
    return Call("GET", "/model", reading.read_model)


def is_ready() -> Call[bool]:
    """Returns whether the service is ready; False if nothing answers. It asks once.

    Raises:
        UnexpectedAnswerError: something else answers, such as a login page.
    """
    return Call("GET", "/health/ready", reading.read_ready, when_away=False)


def _converted(options: Mapping[str, Any]) -> dict[str, Any]:
    """Returns options as they are sent; those that are None are left out."""
    return {
        _SENT_AS.get(name, name): _CONVERTERS[name](value) if name in _CONVERTERS else value
        for name, value in options.items()
        if value is not None
    }


def _labels(labels: Sequence[str]) -> list[str]:
    if isinstance(labels, str):
        raise TypeError("labels is one string: put two or more in a list")
    return list(labels)


def _head_mask(head_mask: HeadMask) -> list[dict[str, int]]:
    return [
        {name: one_index("head_mask", index) for name, index in each.items()} for each in head_mask
    ]


_SENT_AS = {"layers": "layer", "heads": "head", "size": "thumbnail"}
_NUMBERS = ("window", "steps", "size", "layer", "head", "query")
_CONVERTERS: dict[str, Callable[[Any], object]] = {
    **{name: partial(several_indices, name) for name in ("layers", "heads", "omit")},
    **{name: partial(one_index, name) for name in _NUMBERS},
    "labels": _labels,
    "head_mask": _head_mask,
}


def texts_of(sentences: Sequence[str | None]) -> list[str | None]:
    """Returns the sentences as they are sent; refuses a table or mapping, whose names these are."""
    if isinstance(sentences, str):
        raise TypeError("sentences is one string: put it in a list")
    if isinstance(sentences, Mapping) or hasattr(sentences, "columns"):
        kind = type(sentences).__name__
        raise TypeError(f"sentences is a {kind}: give a list, or one column of a table")
    return [_text(sentence) for sentence in sentences]


def _of_one(
    method: str, path: str, read: Callable[[Answer], T], given: Mapping[str, Any]
) -> Call[T]:
    """Builds the call of a method that is given one sentence."""
    options = dict(given)
    sentence = options.pop("sentence")
    if isinstance(sentence, Iterable) and not isinstance(sentence, str | bytes):
        kind = type(sentence).__name__
        instead = "use attentions for several" if method == "attention" else "call it once for each"
        raise TypeError(f"{method} takes one sentence, got a {kind}: {instead}")
    return _post(path, read, sentence=_text(sentence), **_converted(options))


def _text(sentence: object) -> str | None:
    """Returns the sentence, or None for a missing value, whose index the service then names."""
    return sentence if isinstance(sentence, str) else None


def _post(path: str, read: Callable[[Answer], T], **content: object) -> Call[T]:
    return Call("POST", path, read, _NPZ if path == "/attention" else _JSON, as_json(content))


def as_json(content: object) -> bytes:
    """Writes JSON without spaces, in UTF-8."""
    text = json.dumps(content, allow_nan=False, ensure_ascii=False, separators=(",", ":"))
    # A lone surrogate has no UTF-8. It is sent as a JSON escape, so that the service can say which
    # sentence is wrong.
    return text.encode("utf-8", "backslashreplace")
