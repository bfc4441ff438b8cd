"""From one sentence to a prediction with its attention weights, within their limit."""

import asyncio

from model import Encoding, Explanation
from model.errors import TextTooLongError
from service.classify import INLINE_CHARACTERS
from service.engine import Engine
from service.errors import FieldError, SentenceTooLongError, TooManyWeightsError
from service.schemas import AttentionRequest


async def explain(
    engine: Engine, request: AttentionRequest, *, max_weights: int, place: str
) -> Explanation:
    """Answers one request for attention.

    Args:
        engine: what computes.
        request: checked; its layers and heads exist.
        max_weights: the most numbers in an answer.
        place: `body` or `query`, where the sentence came from.

    Raises:
        SentenceTooLongError: the text is too long and truncation is refused.
        TooManyWeightsError: the answer would be too large; nothing was computed.
        ServiceError: whatever the engine raises.
    """
    encoding = await _encode(engine, request, place)
    layers = len(set(request.layer)) if request.layer else engine.info.num_layers
    heads = len(set(request.head)) if request.head else engine.info.num_heads
    length = len(encoding.input_ids)
    weights = layers * heads * length * length
    if weights > max_weights:
        raise TooManyWeightsError(
            f"{layers} layers of {heads} heads over {length} tokens are {weights} weights; the "
            f"limit is {max_weights}: ask for fewer layers or heads, or for a shorter text."
        )
    return await engine.explain(encoding, layers=request.layer, heads=request.head)


async def _encode(engine: Engine, request: AttentionRequest, place: str) -> Encoding:
    encode = engine.predictor.encode
    sentence, truncation = request.sentence, request.truncation
    try:
        if len(sentence) > INLINE_CHARACTERS:
            return await asyncio.to_thread(
                encode, sentence, truncation=truncation, with_tokens=True
            )
        return encode(sentence, truncation=truncation, with_tokens=True)
    except TextTooLongError as error:
        errors = [FieldError((place, "sentence"), str(error))]
        raise SentenceTooLongError(f"sentence: {error}.", errors=errors) from error
