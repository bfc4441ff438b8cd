"""Reads and classifies the texts of a request; each bad text becomes an error that names it."""

import asyncio
import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import TypeVar

from model import Encoding, Head, Prediction, Predictor
from model.errors import (
    InputError,
    NoSuchTokenError,
    TextGrowsError,
    TextTooLongError,
    TokenizerError,
    TooManySentencesError,
    TooManyWindowsError,
)
from model.reading import EncodedText, ReadingOptions, TextResult, join_results, read_text
from service.api.requests import RequestContext
from service.api.wording import named
from service.errors import (
    UNREADABLE_DETAIL,
    FieldError,
    InternalError,
    InvalidRequestError,
    SentenceTooLongError,
    ServiceError,
)
from service.tracing.record import stage

Loc = tuple[str | int, ...]
Result = TypeVar("Result")
logger = logging.getLogger("headlight.texts")

# Longer texts are tokenized off the event loop, where they would hold up other requests.
INLINE_CHARACTERS = 4_000
# With its sentences, or with its tokens, a text takes so many times as long to encode.
COSTLY = 4
_TOO_LONG = (TextTooLongError, TextGrowsError, TooManySentencesError, TooManyWindowsError)
# How the model's errors say that a text could be cut.
_CUT = "set truncation to right or left"


@dataclass(frozen=True, slots=True)
class Texts:
    """The texts of a request.

    Args:
        items: should be strings; each is checked where it is encoded.
        field: where the body holds them all.
        locate: returns where an item stands in the body, by its index.
        cut_by: how a client has a long text cut, in the words of its own system.
    """

    items: Sequence[object]
    options: ReadingOptions = field(default_factory=ReadingOptions)
    field: Loc = ("sentences",)
    locate: Callable[[int], Loc] = lambda index: ("sentences", index)
    cut_by: str = _CUT


def heads_off(request: object) -> list[Head]:
    """Returns the heads that a checked request of any kind switches off."""
    return [Head(one.layer, one.head) for one in getattr(request, "head_mask", None) or ()]


async def run_aside(work: Callable[[], Result], characters: int) -> Result:
    """Encodes texts, on a thread if they are long."""
    return await asyncio.to_thread(work) if characters > INLINE_CHARACTERS else work()


async def classify(
    context: RequestContext, texts: Texts, *, by_item: bool = False
) -> list[TextResult | ServiceError]:
    """Returns the result of each text of a request, or with `by_item` its error in its place.

    Raises:
        InvalidRequestError: a text is not a string, blank or not valid Unicode; the texts have
            more tokens than the queue holds; or a token to leave out is not there.
        SentenceTooLongError: a text is longer than the options allow.
        InternalError: the tokenizer or the network fails on a text.
        ServiceError: whatever the engine raises.
    """
    state = context.state
    predictor = state.engine.predictor
    characters = sum(len(item) for item in texts.items if isinstance(item, str))
    if texts.options.by_sentence:
        characters *= COSTLY
    work = partial(_encode_items, predictor, texts, state.settings.max_queue_tokens)
    items = await run_aside(work, characters)
    errors = {index: item for index, item in enumerate(items) if isinstance(item, ServiceError)}
    if errors and not by_item:
        raise _join_errors(errors)
    encodings = [
        encoding for item in items if isinstance(item, EncodedText) for encoding in item.encodings
    ]
    predicted: list[Prediction | InternalError] = []
    if encodings:
        predicted = await state.engine.batcher.predict(
            encodings, deadline=context.deadline, caller=context.client
        )
    results: list[TextResult | ServiceError] = []
    answered: list[tuple[Sequence[Encoding], Prediction]] = []
    remaining = iter(predicted)
    for index, item in enumerate(items):
        result: TextResult | ServiceError = (
            join_results(predictor, item, remaining) if isinstance(item, EncodedText) else item
        )
        if isinstance(item, EncodedText) and isinstance(result, TextResult):
            answered.append((item.windows, result.prediction))
        elif isinstance(result, InternalError):
            result = _at(("body", *texts.locate(index)), result)
            if not by_item:
                raise result
        results.append(result)
    # What a changed network or text says does not show how the model is used.
    if not texts.options.intervenes:
        state.metrics.observe_answers(answered)
    return results


def _encode_items(
    predictor: Predictor, texts: Texts, max_tokens: int
) -> list[EncodedText | ServiceError]:
    """Encodes the texts; stops as soon as they have more tokens than the queue could ever hold."""
    items: list[EncodedText | ServiceError] = []
    tokens = 0
    with stage("tokenize", len(texts.items)):
        for index, text in enumerate(texts.items):
            item = _encode_item(predictor, text, texts, index)
            items.append(item)
            if isinstance(item, EncodedText):
                tokens += sum(len(encoding.input_ids) for encoding in item.encodings)
            if tokens > max_tokens:
                first = "the text has" if not index else f"the first {index + 1} texts have"
                message = (
                    f"{first} more than {max_tokens} tokens with all windows and sentences, "
                    "which is all the queue holds: send fewer or shorter texts at once"
                )
                raise invalid(("body", *texts.field), message)
    return items


def _encode_item(
    predictor: Predictor, text: object, texts: Texts, index: int
) -> EncodedText | ServiceError:
    try:
        if isinstance(text, str):
            return guard(read_text, predictor, text, texts.options)
    except InternalError as error:
        return _at(("body", *texts.locate(index)), error)
    except InputError as error:
        return bad_text(error, ("body", *texts.locate(index)), cut_by=texts.cut_by)
    return invalid(("body", *texts.locate(index)), "the item is not a string: send text")


def guard(read: Callable[..., Result], *args: object) -> Result:
    """Calls a function that encodes a text; InternalError if the tokenizer breaks on it."""
    try:
        return read(*args)
    except TokenizerError as error:
        logger.exception("the tokenizer broke on a text", extra={"fault": str(error)})
        raise InternalError(UNREADABLE_DETAIL) from error


def bad_text(error: InputError, loc: Loc, *, cut_by: str = _CUT) -> ServiceError:
    """Returns the error for a text at `loc` that cannot be read; `cut_by` as in `Texts`."""
    if isinstance(error, NoSuchTokenError):
        return invalid(("body", "omit", error.place), str(error))
    kind = SentenceTooLongError if isinstance(error, _TOO_LONG) else InvalidRequestError
    return invalid(loc, str(error).replace(_CUT, cut_by), kind)


def invalid(loc: Loc, message: str, kind: type[ServiceError] = InvalidRequestError) -> ServiceError:
    """Returns an error of one place of a request, `body` or `query` first."""
    return kind(f"{named(spell(loc[1:]), message)}.", errors=[FieldError(loc, message)])


def spell(loc: Iterable[str | int]) -> str:
    """Writes a place as people do: `instances[3].text`."""
    parts = [f"[{part}]" if isinstance(part, int) else f".{part}" for part in loc]
    return "".join(parts).removeprefix(".")


def _at(loc: Loc, error: InternalError) -> InternalError:
    """Adds to an error where the text stands."""
    if error.errors:
        return error
    message = error.detail.split(".")[0]
    message = message[0].lower() + message[1:]
    located = InternalError(error.detail, errors=[FieldError(loc, message)])
    located.__cause__ = error.__cause__
    return located


def _join_errors(errors: Mapping[int, ServiceError]) -> ServiceError:
    """Makes one error of those of the texts; invalid texts go before those that are too long."""
    invalid_ones = [error for error in errors.values() if isinstance(error, InvalidRequestError)]
    first, *others = invalid_ones or errors.values()
    if not others:
        return first
    found = [each for error in (first, *others) for each in error.errors]
    detail = f"{first.detail.removesuffix('.')}, and {len(others)} more are wrong too."
    return type(first)(detail, errors=found)
