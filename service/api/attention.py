"""Answers sentences with their attention, in the view and the form asked for."""

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from operator import itemgetter
from typing import Any

from model import Encoding, Explanation, ModelInfo, Predictor, Question
from model.errors import TextTooLongError
from model.tokenizer import Token, Truncation
from model.views import reduced_shape
from model.words import group_words
from service.api.predict import INLINE_CHARACTERS
from service.api.schemas import (
    AttentionListRequest,
    AttentionRequest,
    AttributionsRequest,
    FormName,
    ImportanceRequest,
)
from service.errors import FieldError, SentenceTooLongError, TooManyWeightsError
from service.formats.csv import csv_lines, csv_table
from service.formats.json import JSON, attention_body, join_list
from service.formats.npz import npz_archive, npz_arrays
from service.formats.svg import MOST_CELLS, draw, svg_picture
from service.formats.views import View, make_view
from service.inference.engine import Engine

CSV = "text/csv"
NPZ = "application/x-npz"
SVG = "image/svg+xml"
# What `format` calls each media type; the first is the answer where any is welcome.
FORMS: dict[str, FormName] = {JSON: "json", NPZ: "npz", CSV: "csv", SVG: "svg"}

# A line of CSV is several times as long as a number of JSON.
_CSV_SHARE = 4
# Bytes for the texts of tokens in an answer that repeats them.
_MOST_TEXT = 20_000_000
_CHARACTER = 4  # bytes, in an array

Place = tuple[str | int, ...]


@dataclass(frozen=True, slots=True)
class Form:
    """One form of the answer to one request.

    Args:
        name: as `format` takes it.
        media_type: of the answer.
        part: writes the view of one sentence, given its number; runs on the lane that computed it.
        whole: joins the parts of all sentences.
        most_weights: the most weights in an answer.
        text_size: the bytes that ASCII texts of tokens take, from their lengths in characters
            and the number of maps over them.
    """

    name: FormName
    media_type: str
    part: Callable[[View, int], Any]
    whole: Callable[[Sequence[Any]], bytes | memoryview]
    most_weights: int
    text_size: Callable[[Sequence[int], int], int]


def make_form(
    request: AttentionRequest | AttentionListRequest,
    accepted: str,
    info: ModelInfo,
    *,
    max_weights: int,
) -> Form:
    """Chooses how an answer is written.

    Args:
        request: its field `format` goes before the header `Accept`.
        accepted: the media type that `Accept` prefers.
        info: of the model that answers.
        max_weights: the most numbers in an answer of any form.
    """
    name = request.format or FORMS[accepted]
    several = isinstance(request, AttentionListRequest)
    if name == "npz":
        arrays = partial(npz_arrays, info, dtype=request.dtype)
        archive = partial(npz_archive, numbered=several)
        return Form(name, NPZ, lambda view, _: arrays(view), archive, max_weights, _padded)
    if name == "csv":
        most = max_weights // _CSV_SHARE
        return Form(name, f"{CSV}; charset=utf-8", csv_lines, csv_table, most, _at_each_weight)
    if name == "svg":
        most = min(max_weights, MOST_CELLS)
        return Form(name, SVG, lambda view, _: draw(info, view), svg_picture, most, _at_each_weight)
    whole = join_list if several else itemgetter(0)
    return Form(name, JSON, lambda view, _: attention_body(info, view), whole, max_weights, _once)


def _once(lengths: Sequence[int], maps: int) -> int:
    del lengths, maps
    return 0  # the limit of the request's size holds for them too


def _padded(lengths: Sequence[int], maps: int) -> int:
    """An array of strings gives each the room of the longest."""
    del maps
    return _CHARACTER * len(lengths) * max(lengths)


def _at_each_weight(lengths: Sequence[int], maps: int) -> int:
    """Each weight stands beside the texts of its query and its key."""
    return 2 * maps * len(lengths) * sum(lengths)


async def explain(
    engine: Engine,
    request: AttentionRequest | AttentionListRequest,
    form: Form,
    *,
    place: str,
    deadline: float,
) -> bytes | memoryview:
    """Answers one request for attention.

    Args:
        engine: computes the weights.
        request: checked; its layers and heads exist.
        form: of the answer.
        place: `body` or `query`, where the sentence came from.
        deadline: when the answer is of no use any more, by the event loop's clock.

    Returns:
        The body of the answer.

    Raises:
        SentenceTooLongError: a text is too long and truncation is refused.
        TooManyWeightsError: the answer would be too large; nothing was computed.
        ServiceError: whatever the engine raises.
    """
    encodings = await encode(engine, request, place)
    texts = [text for text, _ in _texts(request)]
    words = [
        group_words(text, encoding.tokens or ()) if request.level == "word" else None
        for text, encoding in zip(texts, encodings, strict=True)
    ]
    tokens = [
        encoding.tokens or () if grouped is None else grouped.tokens
        for encoding, grouped in zip(encodings, words, strict=True)
    ]
    _check_size(engine, request, form, tokens)

    def finish(number: int, explanation: Explanation) -> object:
        view = make_view(explanation, reduce=request.reduce, words=words[number])
        return form.part(view, number)

    questions = [Question(encoding, request.layer, request.head) for encoding in encodings]
    parts = await engine.explain(questions, finish, deadline=deadline)
    if form.name == "json" and isinstance(request, AttentionRequest):
        return form.whole(parts)  # the only part, as it is
    return await asyncio.to_thread(form.whole, parts)


def _check_size(
    engine: Engine,
    request: AttentionRequest | AttentionListRequest,
    form: Form,
    tokens: Sequence[Sequence[Token]],
) -> None:
    """Refuses an answer that would be too large; `tokens` are those, or the words, of each text."""
    lengths = [len(names) for names in tokens]
    layers, heads = reduced_shape(
        request.reduce,
        len(set(request.layer)) if request.layer else engine.info.num_layers,
        len(set(request.head)) if request.head else engine.info.num_heads,
    )
    weights = layers * heads * sum(length * length for length in lengths)
    if weights <= form.most_weights:
        _check_text_size(form, tokens, maps=layers * heads)
        return
    over = f"{lengths[0]} {request.level}s" if len(lengths) == 1 else f"{len(lengths)} sentences"
    limit = f"the limit is {form.most_weights}"
    if form.name != "json":
        limit = f"the limit of {form.name} is {form.most_weights}"
    raise TooManyWeightsError(
        f"{_count(layers, 'layer')} of {_count(heads, 'head')} over {over} are {weights} weights; "
        f"{limit}: ask for fewer layers or heads, or for a shorter text."
    )


def _check_text_size(form: Form, tokens: Sequence[Sequence[Token]], *, maps: int) -> None:
    """Refuses long words that an answer would repeat many times."""
    characters = [[len(token.text) for token in names] for names in tokens]
    size = sum(form.text_size(lengths, maps) for lengths in characters)
    if size > _MOST_TEXT:
        longest = max(max(lengths) for lengths in characters)
        raise TooManyWeightsError(
            f"The texts of the words, of which the longest has {longest} characters, would take "
            f"{size} bytes as {form.name}; the limit is {_MOST_TEXT}: ask for json, which has each "
            "once, or for fewer layers or heads, or shorten the words."
        )


def _count(number: int, kind: str) -> str:
    return f"{number} {kind}{'s' if number != 1 else ''}"


async def encode(
    engine: Engine,
    request: AttentionRequest | AttentionListRequest | AttributionsRequest | ImportanceRequest,
    place: str,
) -> list[Encoding]:
    """Encodes the sentences of a request with their tokens.

    Args:
        engine: its tokenizer does it.
        request: checked.
        place: `body` or `query`, where the sentences came from.

    Raises:
        SentenceTooLongError: a text is too long and truncation is refused.
        NotReadyError: the model is still loading or failed to.
    """
    texts = _texts(request)
    work = partial(_encode, engine.predictor, texts, request.truncation, place)
    if sum(len(text) for text, _ in texts) > INLINE_CHARACTERS:
        return await asyncio.to_thread(work)
    return work()


def _texts(
    request: AttentionRequest | AttentionListRequest | AttributionsRequest | ImportanceRequest,
) -> list[tuple[str, Place]]:
    """Each text of a request, and where it stands."""
    if isinstance(request, AttentionListRequest):
        return [(text, ("sentences", number)) for number, text in enumerate(request.sentences)]
    return [(request.sentence, ("sentence",))]


def _encode(
    predictor: Predictor, texts: Sequence[tuple[str, Place]], truncation: Truncation, place: str
) -> list[Encoding]:
    encodings = []
    for text, where in texts:
        try:
            encodings.append(predictor.encode(text, truncation=truncation, with_tokens=True))
        except TextTooLongError as error:
            name = ".".join(str(part) for part in where)
            errors = [FieldError((place, *where), str(error))]
            raise SentenceTooLongError(f"{name}: {error}.", errors=errors) from error
    return encodings
