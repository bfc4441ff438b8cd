"""Answers sentences with their attention, in the view and the form asked for."""

import asyncio
from collections.abc import Sequence
from functools import partial
from typing import Any, cast

from starlette.responses import Response
from starlette.types import Scope

from model import AttentionOptions, Encoding, Explanation, ModelInfo, Predictor
from model.errors import InputError, NoSuchTokenError, NoSuchWindowError
from model.explain.thumbnails import Thumbnail, thumbnail_side
from model.explain.views import reduced_shape
from model.reading import ReadingOptions, read_window
from model.tokenization.tokenizer import Token
from model.tokenization.words import Words, group_words
from service.api.encoding import INLINE_CHARACTERS, TOO_LONG, guard, heads_off, no_such_token
from service.api.schemas import (
    AttentionListRequest,
    AttentionQuery,
    AttributionsRequest,
    FormName,
    ImportanceRequest,
    StepsQuery,
)
from service.api.state import State
from service.errors import (
    FieldError,
    InvalidRequestError,
    SentenceTooLongError,
    ServiceError,
    TooManyWeightsError,
)
from service.formats.csv import csv_lines, csv_table
from service.formats.json import JSON, attention_body, join_list
from service.formats.npz import npz_archive, npz_arrays
from service.formats.size_estimates import Size, estimate_size
from service.formats.svg import MOST_CELLS, draw, svg_picture
from service.formats.views import View, make_view
from service.http.memory_watch import LARGE_SHARE
from service.http.middleware import deadline_of
from service.http.response_budget import SMALL_BYTES
from service.inference.admission import ClientId
from service.tracing.record import stage

CSV = "text/csv"  # Response adds the charset
NPZ = "application/x-npz"
SVG = "image/svg+xml"
# What `format` calls each media type; the first is the answer where any is welcome.
FORMS: dict[str, FormName] = {JSON: "json", NPZ: "npz", CSV: "csv", SVG: "svg"}

_MEDIA_TYPES = {name: media_type for media_type, name in FORMS.items()}

# A text with its tokens takes so many times as long to encode.
_TOKENS_COST = 4
# A line of CSV is several times as long as a number of JSON.
_CSV_SHARE = 4
# Bytes for the texts of tokens in an answer that repeats them.
MOST_TEXT = 20_000_000
_CHARACTER = 4  # bytes, in an array

Attention = AttentionQuery | AttentionListRequest
Explaining = Attention | AttributionsRequest | ImportanceRequest | StepsQuery
Place = tuple[str | int, ...]


async def explain(
    state: State, request: Attention, accepted: str, place: str, scope: Scope, caller: ClientId
) -> Response:
    """Answers one request for attention.

    Args:
        state: its engine computes, its settings limit the weights.
        request: checked; its layers and heads exist.
        accepted: the media type that `Accept` prefers; the field `format` goes before it.
        place: `body` or `query`, where the sentence came from.
        scope: of the request, with its deadline; the answer takes room until it is sent.
        caller: who asks.

    Raises:
        SentenceTooLongError: a text is too long for what the request says of long texts.
        InvalidRequestError: a text has no window of the number.
        TooManyWeightsError: the answer would be too large; nothing was computed.
        OverloadedError: answers that are not read yet, or the memory, leave no room for it.
        ServiceError: whatever the engine raises.
    """
    engine, form = state.engine, request.format or FORMS[accepted]
    if request.thumbnail is not None and form in ("csv", "svg"):
        message = f"is of the forms json and npz, not of {form}: leave one out"
        errors = [FieldError((place, "thumbnail"), message)]
        raise InvalidRequestError(f"thumbnail: {message}.", errors=errors)
    encodings = await encode(state, request, place)
    words = [
        group_words(text, encoding.tokens or ()) if request.level == "word" else None
        for (text, _), encoding in zip(_texts(request), encodings, strict=True)
    ]
    tokens = [
        encoding.tokens or () if grouped is None else grouped.tokens
        for encoding, grouped in zip(encodings, words, strict=True)
    ]
    weights, size = _check_size(engine.info, request, form, tokens, state)
    if size.answer > SMALL_BYTES:
        state.memory.check(LARGE_SHARE)
    room = state.sending.reserve(scope, answer=size.answer, making=size.making)

    def write(number: int, explanation: Explanation) -> object:
        view = make_view(explanation, reduce=request.reduce, words=words[number])
        return _write_part(engine.info, request, form, view, number)

    questions = [
        AttentionOptions(encoding, request.layer, request.head, _thumbnail(request, grouped))
        for encoding, grouped in zip(encodings, words, strict=True)
    ]
    deadline = deadline_of(scope)
    parts = await engine.explain(
        questions, write, numbers=weights, deadline=deadline, caller=caller
    )
    body: bytes | memoryview
    if form == "json" and isinstance(request, AttentionQuery):
        body = cast("memoryview", parts[0])
    else:
        body = await asyncio.to_thread(_join, request, form, parts)
    if room is not None:
        room.shrink(len(body))
    return Response(body, media_type=_MEDIA_TYPES[form])


def _thumbnail(request: Attention, words: Words | None) -> Thumbnail | None:
    if request.thumbnail is None:
        return None
    return Thumbnail(request.thumbnail, request.special, request.reduce, words)


def _write_part(
    info: ModelInfo, request: Attention, form: FormName, view: View, number: int
) -> object:
    """Writes the view of one sentence; runs on the lane that computed it."""
    if form == "npz":
        return npz_arrays(info, view, dtype=request.dtype)
    if form == "csv":
        return csv_lines(view, number)
    return draw(info, view) if form == "svg" else attention_body(info, view)


def _join(request: Attention, form: FormName, parts: Sequence[Any]) -> bytes:
    """Joins the parts of all sentences."""
    if form == "npz":
        return npz_archive(parts, numbered=isinstance(request, AttentionListRequest))
    if form == "csv":
        return csv_table(parts)
    return svg_picture(parts) if form == "svg" else join_list(parts)


def _check_size(
    info: ModelInfo,
    request: Attention,
    form: FormName,
    tokens: Sequence[Sequence[Token]],
    state: State,
) -> tuple[int, Size]:
    """Refuses an answer that would be too large; returns its number of weights and its size.

    `tokens` are those, or the words, of each text.
    """
    max_weights = state.settings.max_attention_weights
    lengths = [len(names) for names in tokens]
    layers, heads = reduced_shape(
        request.reduce,
        len(set(request.layer)) if request.layer else info.num_layers,
        len(set(request.head)) if request.head else info.num_heads,
    )
    sides = lengths
    if request.thumbnail is not None:
        sides = [
            thumbnail_side(names, request.thumbnail, special=request.special) for names in tokens
        ]
    weights = layers * heads * sum(side * side for side in sides)
    limit = most_weights(form, max_weights)
    if weights > limit:
        over = f"{len(lengths)} sentences" if len(lengths) > 1 else f"{lengths[0]} {request.level}s"
        shorter = "for a shorter text"
        if request.thumbnail is not None:
            over += f" in thumbnails of {max(sides)}"
            shorter = "for smaller thumbnails"
        of_form = "" if form == "json" else f" of {form}"
        raise TooManyWeightsError(
            f"{_count(layers, 'layer')} of {_count(heads, 'head')} over {over} are {weights} "
            f"weights; the limit{of_form} is {limit}: ask for fewer layers or heads, or {shorter}."
        )
    characters = [[len(token.text) for token in names] for names in tokens]
    size = sum(_text_size(form, counts, maps=layers * heads) for counts in characters)
    if size > MOST_TEXT:
        raise TooManyWeightsError(
            f"The texts of the words, of which the longest has {max(map(max, characters))} "
            f"characters, would take {size} bytes as {form}; the limit is {MOST_TEXT}: ask for "
            "json, which has each once, or for fewer layers or heads, or shorten the words."
        )
    estimated = estimate_size(
        form,
        [[token.text for token in names] for names in tokens],
        maps=layers * heads,
        float_bytes=2 if request.dtype == "float16" else 4,
        listed=isinstance(request, AttentionListRequest),
        sides=None if request.thumbnail is None else sides,
    )
    if estimated.making > state.sending.most:
        raise TooManyWeightsError(
            f"The answer would take up to {estimated.making} bytes while it is made; the limit is "
            f"{state.sending.most}: ask for fewer layers or heads, or for a shorter text."
        )
    return weights, estimated


def most_weights(form: FormName, max_weights: int) -> int:
    """The most weights of one answer.

    Args:
        form: of the answer.
        max_weights: the setting.
    """
    most = {"csv": max_weights // _CSV_SHARE, "svg": min(max_weights, MOST_CELLS)}
    return most.get(form, max_weights)


def _text_size(form: FormName, characters: Sequence[int], *, maps: int) -> int:
    """The bytes that the texts of tokens take if they are ASCII."""
    if form == "json":
        return 0  # each stands there once, and the size of the request has a limit
    if form == "npz":  # an array of strings gives each the room of the longest
        return _CHARACTER * len(characters) * max(characters)
    return 2 * maps * len(characters) * sum(characters)  # two stand beside each weight


def _count(number: int, kind: str) -> str:
    return f"{number} {kind}{'s' if number != 1 else ''}"


async def encode(state: State, request: Explaining, place: str) -> list[Encoding]:
    """Encodes the sentences of a request with their tokens.

    Args:
        state: its engine has the tokenizer, its settings limit the windows.
        request: checked.
        place: `body` or `query`, where the sentences came from.

    Raises:
        SentenceTooLongError: a text is too long for what the request says of long texts.
        InvalidRequestError: a text has no window of the number.
        InternalError: the tokenizer breaks on a text.
        NotReadyError: the model is still loading or failed to.
    """
    texts = _texts(request)
    work = partial(
        _encode, state.engine.predictor, texts, request, place, state.settings.max_windows
    )
    if sum(len(text) for text, _ in texts) > INLINE_CHARACTERS // _TOKENS_COST:
        return await asyncio.to_thread(work)
    return work()


def _texts(request: Explaining) -> list[tuple[str, Place]]:
    """Each text of a request, and where it stands."""
    if isinstance(request, AttentionListRequest):
        return [(text, ("sentences", number)) for number, text in enumerate(request.sentences)]
    return [(request.sentence, ("sentence",))]


def _encode(
    predictor: Predictor,
    texts: Sequence[tuple[str, Place]],
    request: Explaining,
    place: str,
    max_windows: int,
) -> list[Encoding]:
    with stage("tokenize", len(texts)):
        return [_encode_one(predictor, *each, request, place, max_windows) for each in texts]


def _encode_one(
    predictor: Predictor, text: str, where: Place, request: Explaining, place: str, max_windows: int
) -> Encoding:
    kind: type[ServiceError] = SentenceTooLongError
    cause: InputError
    name = ".".join(str(part) for part in where)
    try:
        options = ReadingOptions(
            request.truncation,
            max_windows=max_windows,
            heads=heads_off(request),
            omit=getattr(request, "omit", None) or (),
        )
        return guard(read_window, predictor, text, options, getattr(request, "window", 0))
    except TOO_LONG as error:
        cause, message = error, str(error)
    except NoSuchTokenError as error:
        raise no_such_token(error) from error
    except NoSuchWindowError as error:
        cause, kind = error, InvalidRequestError
        message = str(error) if where == ("sentence",) else f"of {name}, {error}"
        where, name = ("window",), "window"
    raise kind(f"{name}: {message}.", errors=[FieldError((place, *where), message)]) from cause
