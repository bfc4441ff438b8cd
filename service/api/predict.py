"""From the items of a request to predictions, or to the error that each bad one deserves."""

import asyncio
from collections.abc import Sequence

from model import Encoding, Prediction, Predictor
from model.errors import InputError, TextTooLongError
from model.tokenizer import Truncation
from service.api.schemas import PredictRequest
from service.errors import FieldError, InvalidRequestError, SentenceTooLongError, ServiceError
from service.inference.engine import Engine

# Above this many characters tokenizing moves off the event loop, where it would hold up others.
INLINE_CHARACTERS = 4_000

Item = Encoding | FieldError | TextTooLongError


async def classify(
    engine: Engine, request: PredictRequest, *, deadline: float
) -> list[Prediction | ServiceError]:
    """Answers the items of one request.

    Args:
        engine: what computes.
        request: the checked request; its items are not yet.
        deadline: when the answer is of no use any more, by the event loop's clock.

    Returns:
        For each item its prediction; or, if the request wants errors by item, its error.

    Raises:
        InvalidRequestError: an item is not a string, blank or not valid Unicode.
        SentenceTooLongError: an item is too long and truncation is refused.
        ServiceError: whatever the engine raises.
    """
    sentences = request.sentences
    characters = sum(len(item) for item in sentences if isinstance(item, str))
    work = (engine.predictor, sentences, request.truncation)
    if characters > INLINE_CHARACTERS:
        items = await asyncio.to_thread(_encode_all, *work)
    else:
        items = _encode_all(*work)
    faults = {index: item for index, item in enumerate(items) if not isinstance(item, Encoding)}
    if faults and request.on_error == "request":
        raise _request_error(faults)
    encodings = [item for item in items if isinstance(item, Encoding)]
    answered = await engine.predict(encodings, deadline=deadline) if encodings else []
    predictions = iter(answered)
    return [
        _item_error(index, faults[index]) if index in faults else next(predictions)
        for index in range(len(items))
    ]


def _encode_all(
    predictor: Predictor, sentences: Sequence[object], truncation: Truncation
) -> list[Item]:
    return [
        _encode(predictor, sentence, ("body", "sentences", index), truncation)
        for index, sentence in enumerate(sentences)
    ]


def _encode(
    predictor: Predictor, sentence: object, loc: tuple[str | int, ...], truncation: Truncation
) -> Item:
    if not isinstance(sentence, str):
        return FieldError(loc, "the item is not a string: send text")
    try:
        return predictor.encode(sentence, truncation=truncation)
    except TextTooLongError as error:
        return error
    except InputError as error:
        return FieldError(loc, str(error))


def _request_error(faults: dict[int, FieldError | TextTooLongError]) -> ServiceError:
    """The one error of a request with bad items; what is invalid goes before what is too long."""
    invalid = {index: fault for index, fault in faults.items() if isinstance(fault, FieldError)}
    chosen = invalid or faults
    errors = [_field_error(index, fault) for index, fault in chosen.items()]
    first = min(chosen)
    more = f", and {len(errors) - 1} more are wrong too" if len(errors) > 1 else ""
    detail = f"sentences[{first}]: {errors[0].msg}{more}."
    return (InvalidRequestError if invalid else SentenceTooLongError)(detail, errors=errors)


def _item_error(index: int, fault: FieldError | TextTooLongError) -> ServiceError:
    error = _field_error(index, fault)
    kind = InvalidRequestError if isinstance(fault, FieldError) else SentenceTooLongError
    return kind(f"sentences[{index}]: {error.msg}.", errors=[error])


def _field_error(index: int, fault: FieldError | TextTooLongError) -> FieldError:
    if isinstance(fault, FieldError):
        return fault
    return FieldError(("body", "sentences", index), str(fault))
