"""Answers the items of a request with predictions, or each bad one with its error."""

import asyncio
import logging
from collections.abc import Mapping, Sequence

from model import Encoding, Prediction, Predictor
from model.errors import InputError, TextGrowsError, TextTooLongError, TokenizerError
from model.tokenizer import Truncation
from service.api.schemas import PredictRequest
from service.errors import (
    UNREADABLE_DETAIL,
    FieldError,
    InternalError,
    InvalidRequestError,
    SentenceTooLongError,
    ServiceError,
)
from service.inference.admission import Caller
from service.inference.engine import Engine
from service.tracing.record import stage

logger = logging.getLogger("headlight.texts")

# Longer texts are tokenized off the event loop, where they would hold up other requests.
INLINE_CHARACTERS = 4_000


async def classify(
    engine: Engine, request: PredictRequest, *, deadline: float, caller: Caller
) -> list[Prediction | ServiceError]:
    """Answers the items of one request.

    Args:
        engine: computes the predictions.
        request: checked but for its items.
        deadline: when the answer is of no use any more, by the event loop's clock.
        caller: who asks.

    Returns:
        For each item its prediction; or, if the request wants errors by item, its error.

    Raises:
        InvalidRequestError: an item is not a string, blank or not valid Unicode.
        SentenceTooLongError: an item is too long and truncation is refused.
        InternalError: the tokenizer or the network breaks on an item.
        ServiceError: whatever the engine raises.
    """
    sentences = request.sentences
    characters = sum(len(item) for item in sentences if isinstance(item, str))
    work = (engine.predictor, sentences, request.truncation)
    if characters > INLINE_CHARACTERS:
        items = await asyncio.to_thread(_encode_all, *work)
    else:
        items = _encode_all(*work)
    faults = {index: item for index, item in enumerate(items) if isinstance(item, ServiceError)}
    if faults and request.on_error == "request":
        raise _join(faults)
    encodings = [item for item in items if isinstance(item, Encoding)]
    answered: list[Prediction | InternalError] = []
    if encodings:
        answered = await engine.predict(encodings, deadline=deadline, caller=caller)
    answers = iter(answered)
    merged: list[Prediction | ServiceError] = []
    for index in range(len(items)):
        answer = faults[index] if index in faults else next(answers)
        if isinstance(answer, InternalError):
            answer = _at(index, answer)
            if request.on_error == "request":
                raise answer
        merged.append(answer)
    engine.note_answers(encodings, answered)
    return merged


def _at(index: int, fault: InternalError) -> InternalError:
    """Adds to an error which item it belongs to."""
    if fault.errors:
        return fault
    message = fault.detail.split(".")[0]
    errors = [FieldError(("body", "sentences", index), message[0].lower() + message[1:])]
    error = InternalError(fault.detail, errors=errors)
    error.__cause__ = fault.__cause__
    return error


def encode_text(
    predictor: Predictor, text: str, *, truncation: Truncation, with_tokens: bool = False
) -> Encoding:
    """Encodes one text; see `Predictor.encode`.

    Raises:
        InputError: the text cannot be classified.
        InternalError: the tokenizer breaks on it.
    """
    try:
        return predictor.encode(text, truncation=truncation, with_tokens=with_tokens)
    except TokenizerError as error:
        logger.exception("the tokenizer broke on a text", extra={"fault": str(error)})
        raise InternalError(UNREADABLE_DETAIL) from error


def _encode_all(
    predictor: Predictor, sentences: Sequence[object], truncation: Truncation
) -> list[Encoding | ServiceError]:
    with stage("tokenize", len(sentences)):
        return [_encode(predictor, item, index, truncation) for index, item in enumerate(sentences)]


def _encode(
    predictor: Predictor, sentence: object, index: int, truncation: Truncation
) -> Encoding | ServiceError:
    kind: type[ServiceError] = InvalidRequestError
    try:
        if isinstance(sentence, str):
            return encode_text(predictor, sentence, truncation=truncation)
        message = "the item is not a string: send text"
    except InternalError as error:
        return _at(index, error)
    except (TextTooLongError, TextGrowsError) as error:
        kind, message = SentenceTooLongError, str(error)
    except InputError as error:
        message = str(error)
    errors = [FieldError(("body", "sentences", index), message)]
    return kind(f"sentences[{index}]: {message}.", errors=errors)


def _join(faults: Mapping[int, ServiceError]) -> ServiceError:
    """Makes one error of those of the items; what is invalid goes before what is too long."""
    invalid = [fault for fault in faults.values() if isinstance(fault, InvalidRequestError)]
    first, *others = invalid or faults.values()
    if not others:
        return first
    errors = [error for fault in (first, *others) for error in fault.errors]
    detail = f"{first.detail.removesuffix('.')}, and {len(others)} more are wrong too."
    return type(first)(detail, errors=errors)
