"""From sentences to an answer with their attention, in the view and form asked for."""

import asyncio
from collections.abc import Sequence

from model import Encoding, Explanation, Predictor, Question
from model.errors import TextTooLongError
from model.tokenizer import Token, Truncation
from model.views import reduced_shape
from model.words import group_words
from service.api.forms import MOST_TEXT, Form
from service.api.predict import INLINE_CHARACTERS
from service.api.schemas import (
    AttentionListRequest,
    AttentionRequest,
    AttributionsRequest,
    ImportanceRequest,
)
from service.errors import FieldError, SentenceTooLongError, TooManyWeightsError
from service.formats.views import make_view
from service.inference.engine import Engine

Place = tuple[str | int, ...]


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
        engine: what computes.
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
    if isinstance(request, AttentionRequest):
        texts: list[tuple[str, Place]] = [(request.sentence, (place, "sentence"))]
    else:
        sentences = enumerate(request.sentences)
        texts = [(text, (place, "sentences", number)) for number, text in sentences]
    encodings = await _encode(engine, texts, request.truncation)
    words = [
        group_words(text, encoding.tokens or ()) if request.level == "word" else None
        for (text, _), encoding in zip(texts, encodings, strict=True)
    ]
    tokens = [
        encoding.tokens or () if joined is None else joined.tokens
        for encoding, joined in zip(encodings, words, strict=True)
    ]
    _check_size(engine, request, form, tokens)

    def finish(number: int, explanation: Explanation) -> object:
        view = make_view(explanation, reduce=request.reduce, words=words[number])
        return form.part(view, number)

    questions = [Question(encoding, request.layer, request.head) for encoding in encodings]
    parts = await engine.explain(questions, finish, deadline=deadline)
    if form.name == "json" and isinstance(request, AttentionRequest):
        return form.whole(parts)  # the one part that there is
    return await asyncio.to_thread(form.whole, parts)


def _check_size(
    engine: Engine,
    request: AttentionRequest | AttentionListRequest,
    form: Form,
    tokens: Sequence[Sequence[Token]],
) -> None:
    """Refuses what would be too large.

    Args:
        engine: whose model it is.
        request: what is wanted.
        form: of the answer.
        tokens: of each text its tokens or words.
    """
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
    """Refuses long words that an answer would hold many times over."""
    characters = [[len(token.text) for token in names] for names in tokens]
    size = sum(form.text_size(lengths, maps) for lengths in characters)
    if size > MOST_TEXT:
        longest = max(max(lengths) for lengths in characters)
        raise TooManyWeightsError(
            f"The texts of the words, of which the longest has {longest} characters, would take "
            f"{size} bytes as {form.name}; the limit is {MOST_TEXT}: ask for json, which has each "
            "once, or for fewer layers or heads, or shorten the words."
        )


def _count(number: int, kind: str) -> str:
    return f"{number} {kind}{'s' if number != 1 else ''}"


async def encode_sentence(
    engine: Engine, request: AttentionRequest | AttributionsRequest | ImportanceRequest, place: str
) -> Encoding:
    """Encodes the sentence of a request with its tokens.

    Args:
        engine: whose tokenizer does it.
        request: checked.
        place: `body` or `query`, where the sentence came from.

    Raises:
        SentenceTooLongError: the text is too long and truncation is refused.
        NotReadyError: the model is still loading or failed to.
    """
    texts: list[tuple[str, Place]] = [(request.sentence, (place, "sentence"))]
    (encoding,) = await _encode(engine, texts, request.truncation)
    return encoding


async def _encode(
    engine: Engine, texts: Sequence[tuple[str, Place]], truncation: Truncation
) -> list[Encoding]:
    work = (engine.predictor, texts, truncation)
    if sum(len(text) for text, _ in texts) > INLINE_CHARACTERS:
        return await asyncio.to_thread(_encode_all, *work)
    return _encode_all(*work)


def _encode_all(
    predictor: Predictor, texts: Sequence[tuple[str, Place]], truncation: Truncation
) -> list[Encoding]:
    encodings = []
    for text, where in texts:
        try:
            encodings.append(predictor.encode(text, truncation=truncation, with_tokens=True))
        except TextTooLongError as error:
            errors = [FieldError(where, str(error))]
            name = ".".join(str(part) for part in where[1:])
            raise SentenceTooLongError(f"{name}: {error}.", errors=errors) from error
    return encodings
