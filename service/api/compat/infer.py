"""Answers texts with tensors: what `POST /v2/models/{model}/infer` does.

The texts take the way of `POST /predict`. With `attention` or `tokens` among its outputs, one text
takes that of `/attention`: its prediction and its weights come from one pass.
"""

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray
from starlette.requests import Request

from model import AttentionOptions, Encoding, Explanation, Prediction, Predictor
from model.errors import InputError, TextGrowsError, TextTooLongError
from model.reading import ReadingOptions, read_window
from model.tokenization.tokenizer import Truncation
from service.api.compat.bodies import read_content
from service.api.compat.infer_schemas import InferRequest, OutputName, RequestParameters
from service.api.compat.texts import Loc, Texts, invalid, predict_texts, spell, truncated_header
from service.api.encoding import INLINE_CHARACTERS, guard
from service.api.input import INLINE_BYTES, parse_json, validate
from service.api.requests import caller_of, unless_gone
from service.api.state import State, state_of
from service.errors import (
    FieldError,
    MalformedJsonError,
    SentenceTooLongError,
    TooManyWeightsError,
)
from service.formats.json import JSON, encode_weights
from service.formats.size_estimates import Size, estimate_size
from service.formats.tensors import (
    HEADER,
    Body,
    Datatype,
    Output,
    cut_tensors,
    read_bytes,
    read_nested,
    split_body,
    write_body,
)
from service.http.memory_watch import LARGE_SHARE
from service.http.middleware import deadline_of
from service.http.response_budget import SMALL_BYTES

OCTETS = "application/octet-stream"
Wanted = Sequence[tuple[OutputName, bool]]

_DATATYPES: Mapping[OutputName, Datatype] = {
    "label": "BYTES",
    "probabilities": "FP32",
    "logits": "FP32",
    "token_count": "INT32",
    "truncated": "BOOL",
    "attention": "FP32",
    "tokens": "BYTES",
}
# What only one text is answered with, and only if it is asked for.
_EXPLAINING: frozenset[OutputName] = frozenset({"attention", "tokens"})
_BY_DEFAULT = [name for name in _DATATYPES if name not in _EXPLAINING]
_DATA: Loc = ("inputs", 0, "data")
_MICROSECONDS = 1_000_000
_FLOAT = 4
# Bytes of the length before the text of a token, and of those of other outputs.
_HEAD = 4_000
# Of an answer as bytes: the weights, the same in little-endian order, and the whole body.
_COPIES = 3


class InferInput:
    """A request that was read.

    Args:
        body: its JSON, checked.
        texts: that it holds; each is judged where it is encoded.
    """

    def __init__(self, body: InferRequest, texts: Sequence[object]) -> None:
        parameters = body.parameters or RequestParameters()
        by_default = bool(parameters.binary_data_output)
        named: dict[OutputName, bool | None] = {
            cast("OutputName", output.name): None
            if output.parameters is None
            else output.parameters.binary_data
            for output in body.outputs or ()
        }
        self.id = body.id
        self.texts = texts
        self.truncation: Truncation = parameters.truncation
        self.seconds = (parameters.timeout or 0) / _MICROSECONDS or None
        self.outputs: Wanted = [
            (name, by_default if binary is None else binary)
            for name, binary in (named or dict.fromkeys(_BY_DEFAULT)).items()
        ]

    @property
    def explains(self) -> bool:
        """Whether weights or tokens are asked for."""
        return any(name in _EXPLAINING for name, _ in self.outputs)


async def read_infer(request: Request) -> InferInput:
    """Reads a request of the protocol.

    Args:
        request: was admitted; its body is not read yet.

    Raises:
        ServiceError: the body is too large, of another type, not JSON, or wrong.
    """
    state = state_of(request)
    content = await read_content(request, state.settings.max_body_bytes, JSON, OCTETS)
    lengths = request.headers.getlist(HEADER)
    if len(content) > INLINE_BYTES:
        return await asyncio.to_thread(_parse, content, lengths, state.limits)
    return _parse(content, lengths, state.limits)


def _parse(content: bytes, lengths: Sequence[str], limits: Mapping[str, object]) -> InferInput:
    head, behind = split_body(content, lengths)
    try:
        value = parse_json(head)
    except MalformedJsonError as error:
        if lengths:
            raise
        hint = f"If tensors follow the JSON as bytes, give its length in {HEADER}."
        raise MalformedJsonError(f"{error.detail} {hint}") from error
    body = validate(InferRequest, value, place="body", context=limits)
    (tensor,) = body.inputs
    (part,) = cut_tensors(behind, [tensor.binary_size])
    texts: Sequence[object]
    if part is None:
        texts = read_nested(tensor.data, tensor.shape, _DATA)
    else:
        texts = read_bytes(part, tensor.shape, _DATA)
    return InferInput(body, texts)


def describe_outputs(state: State) -> list[dict[str, object]]:
    """The outputs of the model, as its metadata has them; -1 is any size.

    Args:
        state: its checkpoint says how many classes, layers and heads there are.
    """
    config = state.checkpoint.config
    classes = len(config.labels)
    shapes: Mapping[OutputName, tuple[int, ...]] = {
        "label": (-1,),
        "probabilities": (-1, classes),
        "logits": (-1, classes),
        "token_count": (-1,),
        "truncated": (-1,),
        "attention": (1, config.num_layers, config.num_heads, -1, -1),
        "tokens": (1, -1),
    }
    return [
        {"name": name, "datatype": _DATATYPES[name], "shape": shape}
        for name, shape in shapes.items()
    ]


async def infer(request: Request, wanted: InferInput) -> tuple[Body, dict[str, str]]:
    """Answers the texts of a request.

    Args:
        request: was admitted, and its body is read.
        wanted: by it.

    Returns:
        The body of the answer, and headers that name the texts which were cut.

    Raises:
        ServiceError: as `predict_texts` and `/attention` do.
    """
    if wanted.explains:
        return await _explain(request, wanted)
    texts = Texts(wanted.texts, _DATA, lambda index: (*_DATA, index), wanted.truncation)
    predictions = await predict_texts(request, texts)
    values = _values(predictions)
    outputs = [_output(name, values[name], binary) for name, binary in wanted.outputs]
    body = write_body(_head(state_of(request), wanted), outputs)
    return body, truncated_header(predictions)


async def _explain(request: Request, wanted: InferInput) -> tuple[Body, dict[str, str]]:
    state, scope = state_of(request), request.scope
    engine = state.engine
    encoding = await _encode(engine.predictor, wanted)
    tokens = [token.text for token in encoding.tokens or ()]
    room = None
    weights = 0
    if any(name == "attention" for name, _ in wanted.outputs):
        weights, size = _check_size(state, wanted, tokens)
        if size.answer > SMALL_BYTES:
            state.memory.check(LARGE_SHARE)
        room = state.sending.reserve(scope, answer=size.answer, making=size.making)

    def write(_: int, explanation: Explanation) -> tuple[Body, dict[str, str]]:
        """Runs on the lane that computed it."""
        values = _values([explanation.prediction])
        values |= {"attention": explanation.attention[np.newaxis], "tokens": tokens}
        outputs = [_output(name, values[name], binary) for name, binary in wanted.outputs]
        body = write_body(_head(state, wanted), outputs)
        return body, truncated_header([explanation.prediction])

    explaining = engine.explain(
        [AttentionOptions(encoding)],
        write,
        numbers=weights,
        deadline=deadline_of(scope),
        # It costs what a request of this route does, which admission tells apart.
        caller=replace(caller_of(request), route="/attention"),
    )
    ((body, headers),) = await unless_gone(request, explaining)
    if room is not None:
        room.shrink(len(body.content))
    return body, headers


async def _encode(predictor: Predictor, wanted: InferInput) -> Encoding:
    """Encodes the one text of a request, with its tokens."""
    count = len(wanted.texts)
    if count != 1:
        message = (
            f"attention and tokens are answered for one text, got {count}: send it alone, or "
            "leave both out"
        )
        raise invalid(("outputs",), message)
    (text,) = wanted.texts
    loc = (*_DATA, 0)
    if not isinstance(text, str):
        raise invalid(loc, "the item is not a string: send text")
    encode = partial(guard, read_window, predictor, text, ReadingOptions(wanted.truncation))
    try:
        # With its tokens, a text takes several times as long to encode.
        if len(text) > INLINE_CHARACTERS // 4:
            return await asyncio.to_thread(encode)
        return encode()
    except (TextTooLongError, TextGrowsError) as error:
        errors = [FieldError(("body", *loc), str(error))]
        raise SentenceTooLongError(f"{spell(loc)}: {error}.", errors=errors) from error
    except InputError as error:
        raise invalid(loc, str(error)) from error


def _check_size(state: State, wanted: InferInput, tokens: Sequence[str]) -> tuple[int, Size]:
    """Refuses an answer that would be too large; returns its weights and its size."""
    info, most = state.engine.info, state.settings.max_attention_weights
    maps = info.num_layers * info.num_heads
    weights = maps * len(tokens) ** 2
    advice = "send a shorter text, or ask POST /attention for fewer layers or heads"
    if weights > most:
        raise TooManyWeightsError(
            f"{info.num_layers} layers of {info.num_heads} heads over {len(tokens)} tokens are "
            f"{weights} weights; the limit is {most}: {advice}."
        )
    if dict(wanted.outputs)["attention"]:
        answer = weights * _FLOAT + sum(_FLOAT + len(token.encode()) for token in tokens) + _HEAD
        size = Size(answer, answer * _COPIES)
    else:
        size = estimate_size("json", [tokens], maps=maps, float_bytes=_FLOAT, listed=True)
    if size.making > state.sending.most:
        raise TooManyWeightsError(
            f"The answer would take up to {size.making} bytes while it is made; the limit is "
            f"{state.sending.most}: {advice}."
        )
    return weights, size


def _values(predictions: Sequence[Prediction]) -> dict[str, NDArray[Any] | list[str]]:
    """The values of all outputs that any number of texts is answered with."""
    return {
        "label": [each.label for each in predictions],
        "probabilities": np.array(
            [list(each.probabilities.values()) for each in predictions], np.float32
        ),
        "logits": np.array([each.logits for each in predictions], np.float32),
        "token_count": np.array([each.token_count for each in predictions], np.int32),
        "truncated": np.array([each.truncated for each in predictions], np.bool_),
    }


def _output(name: OutputName, values: NDArray[Any] | list[str], binary: bool) -> Output:
    shape: tuple[int, ...]
    if isinstance(values, np.ndarray):
        shape = values.shape
    else:  # the tokens of the one text, or a label for each
        shape = (1, len(values)) if name == "tokens" else (len(values),)
    written = None
    if name == "attention" and not binary:
        assert isinstance(values, np.ndarray)  # noqa: S101 - its type is FP32
        written = encode_weights(values[0], before=b"[", after=b"]")
    return Output(name, _DATATYPES[name], shape, values, binary, written)


def _head(state: State, wanted: InferInput) -> dict[str, object]:
    head: dict[str, object] = {
        "model_name": state.checkpoint.name,
        "model_version": state.checkpoint.version,
    }
    return head if wanted.id is None else {**head, "id": wanted.id}
