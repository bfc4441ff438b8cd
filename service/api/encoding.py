"""Encodes texts for the model; whatever goes wrong becomes an error that a client may see."""

import logging
from collections.abc import Callable
from typing import TypeVar

from model import Encoding, Predictor
from model.errors import (
    TextGrowsError,
    TextTooLongError,
    TokenizerError,
    TooManySentencesError,
    TooManyWindowsError,
)
from model.tokenization.tokenizer import Truncation
from service.errors import UNREADABLE_DETAIL, InternalError

Result = TypeVar("Result")
logger = logging.getLogger("headlight.texts")

# Longer texts are tokenized off the event loop, where they would hold up other requests.
INLINE_CHARACTERS = 4_000
#: what the model raises of a text that is too long
TOO_LONG = (TextTooLongError, TextGrowsError, TooManySentencesError, TooManyWindowsError)


def encode_text(
    predictor: Predictor, text: str, *, truncation: Truncation, with_tokens: bool = False
) -> Encoding:
    """Encodes one text; see `Predictor.encode`.

    Raises:
        InputError: the text cannot be classified.
        InternalError: the tokenizer breaks on it.
    """
    return guard(lambda: predictor.encode(text, truncation=truncation, with_tokens=with_tokens))


def guard(encode: Callable[[], Result]) -> Result:
    """Calls what encodes a text.

    Raises:
        InputError: the text cannot be classified.
        InternalError: the tokenizer breaks on it; the log says how.
    """
    try:
        return encode()
    except TokenizerError as error:
        logger.exception("the tokenizer broke on a text", extra={"fault": str(error)})
        raise InternalError(UNREADABLE_DETAIL) from error
