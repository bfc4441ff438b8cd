"""Turns the items of a request into the texts that go through the network, or into their errors.

An item is one text. Read in windows it is several, and with its sentences it is more.
"""

from collections.abc import Mapping, Sequence

from model import Predictor
from model.errors import InputError, NoSuchTokenError
from model.reading import EncodedText, ReadingOptions, read_text
from service.api.encoding import TOO_LONG, guard, no_such_token
from service.errors import (
    FieldError,
    InternalError,
    InvalidRequestError,
    SentenceTooLongError,
    ServiceError,
)
from service.tracing.record import stage


def encode_items(
    predictor: Predictor, sentences: Sequence[object], options: ReadingOptions, *, max_tokens: int
) -> list[EncodedText | ServiceError]:
    """Encodes the items of a request.

    Args:
        predictor: its tokenizer does it.
        sentences: what should be texts.
        options: how they are read.
        max_tokens: the most tokens of all items together.

    Returns:
        Each as it will be classified, or its error.

    Raises:
        InvalidRequestError: together they have more tokens than the queue holds.
    """
    items: list[EncodedText | ServiceError] = []
    tokens = 0
    with stage("tokenize", len(sentences)):
        for index, sentence in enumerate(sentences):
            item = _encode(predictor, sentence, index, options)
            items.append(item)
            if isinstance(item, EncodedText):
                tokens += sum(len(encoding.input_ids) for encoding in item.encodings)
            if tokens > max_tokens:
                raise _too_much(index + 1, max_tokens)
    return items


def _too_much(count: int, limit: int) -> InvalidRequestError:
    """Refuses more than the queue could ever hold, as soon as it is known."""
    first = "the text has" if count == 1 else f"the first {count} texts have"
    message = (
        f"{first} more than {limit} tokens with all windows and sentences, and the queue holds no "
        "more: send fewer or shorter texts at once"
    )
    errors = [FieldError(("body", "sentences"), message)]
    return InvalidRequestError(f"sentences: {message}.", errors=errors)


def _encode(
    predictor: Predictor, sentence: object, index: int, options: ReadingOptions
) -> EncodedText | ServiceError:
    kind: type[ServiceError] = InvalidRequestError
    try:
        if isinstance(sentence, str):
            return guard(read_text, predictor, sentence, options)
        message = "the item is not a string: send text"
    except InternalError as error:
        return at_item(index, error)
    except NoSuchTokenError as error:
        return no_such_token(error)
    except TOO_LONG as error:
        kind, message = SentenceTooLongError, str(error)
    except InputError as error:
        message = str(error)
    errors = [FieldError(("body", "sentences", index), message)]
    return kind(f"sentences[{index}]: {message}.", errors=errors)


def at_item(index: int, fault: InternalError) -> InternalError:
    """Adds to an error which item it belongs to."""
    if fault.errors:
        return fault
    message = fault.detail.split(".")[0]
    errors = [FieldError(("body", "sentences", index), message[0].lower() + message[1:])]
    error = InternalError(fault.detail, errors=errors)
    error.__cause__ = fault.__cause__
    return error


def join_faults(faults: Mapping[int, ServiceError]) -> ServiceError:
    """Makes one error of those of the items; what is invalid goes before what is too long."""
    invalid = [fault for fault in faults.values() if isinstance(fault, InvalidRequestError)]
    first, *others = invalid or faults.values()
    if not others:
        return first
    errors = [error for fault in (first, *others) for error in fault.errors]
    detail = f"{first.detail.removesuffix('.')}, and {len(others)} more are wrong too."
    return type(first)(detail, errors=errors)
