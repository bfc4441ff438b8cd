"""Encodes texts for the model; whatever goes wrong becomes an error that a client may see."""

import logging
from collections.abc import Callable
from typing import ParamSpec, TypeVar

from model import Head
from model.errors import (
    NoSuchTokenError,
    TextGrowsError,
    TextTooLongError,
    TokenizerError,
    TooManySentencesError,
    TooManyWindowsError,
)
from service.errors import UNREADABLE_DETAIL, FieldError, InternalError, InvalidRequestError

Args = ParamSpec("Args")
Result = TypeVar("Result")
logger = logging.getLogger("headlight.texts")

# Longer texts are tokenized off the event loop, where they would hold up other requests.
INLINE_CHARACTERS = 4_000
#: what the model raises of a text that is too long
TOO_LONG = (TextTooLongError, TextGrowsError, TooManySentencesError, TooManyWindowsError)


def guard(encode: Callable[Args, Result], *args: Args.args, **options: Args.kwargs) -> Result:
    """Calls a function that encodes a text.

    Raises:
        InputError: the text cannot be classified.
        InternalError: the tokenizer broke on it; the log says how.
    """
    try:
        return encode(*args, **options)
    except TokenizerError as error:
        logger.exception("the tokenizer broke on a text", extra={"fault": str(error)})
        raise InternalError(UNREADABLE_DETAIL) from error


def heads_off(request: object) -> list[Head]:
    """Returns the heads that a checked request of any kind switches off."""
    return [Head(one.layer, one.head) for one in getattr(request, "head_mask", None) or ()]


def no_such_token(error: NoSuchTokenError) -> InvalidRequestError:
    """Returns the error of a request for a token that cannot be left out."""
    errors = [FieldError(("body", "omit", error.place), str(error))]
    return InvalidRequestError(f"omit.{error.place}: {error}.", errors=errors)
