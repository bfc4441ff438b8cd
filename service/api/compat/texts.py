"""Classifies the texts of a request in another system's form, as `POST /predict` would.

The texts take the same way: same limits, same queue, same deadline. Only the names differ: an error
says where a text stands in the body that the client sent.
"""

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from starlette.requests import Request

from model import Prediction
from model.reading import TextResult
from model.tokenization.tokenizer import Truncation
from service.api.predict import classify
from service.api.requests import caller_of, unless_gone
from service.api.schemas import PredictRequest
from service.api.state import state_of
from service.errors import FieldError, InvalidRequestError, ServiceError
from service.http.middleware import deadline_of

Loc = tuple[str | int, ...]

TRUNCATED = "X-Headlight-Truncated"
# Clients and proxies limit the size of headers.
_MOST_TOLD = 100
_ITEM = re.compile(r"sentences\[(\d+)\]")
_CUT_OUR_WAY = "set truncation to right or left"


@dataclass(frozen=True, slots=True)
class Texts:
    """The texts of a request.

    Args:
        items: what should be texts; each is judged where it is encoded.
        field: of the body, that holds them all.
        locate: tells where an item stands in the body, by its index.
        truncation: as of `POST /predict`.
        cut_by: what a client does to have a long text cut, in its own words.
    """

    items: Sequence[object]
    field: Loc
    locate: Callable[[int], Loc]
    truncation: Truncation = "right"
    cut_by: str = _CUT_OUR_WAY


async def predict_texts(request: Request, texts: Texts) -> list[Prediction]:
    """Classifies all texts of a request, or none.

    Args:
        request: was admitted, and its body is read.
        texts: that it holds, no more than settings allow (see `bases.check_count`).

    Raises:
        InvalidRequestError: there is no text, or one cannot be classified.
        SentenceTooLongError: a text is too long and truncation is refused.
        ServiceError: whatever the engine raises.
    """
    state = state_of(request)
    if not texts.items:
        raise invalid(texts.field, "no text is given: send at least one")
    body = PredictRequest.model_construct(
        sentences=list(texts.items), truncation=texts.truncation, on_error="request"
    )
    classifying = classify(
        state, body, deadline=deadline_of(request.scope), caller=caller_of(request)
    )
    try:
        verdicts = await unless_gone(request, classifying)
    except ServiceError as error:
        if not error.errors:  # it names no text
            raise
        raise _renamed(error, texts) from error
    # All are there: none failed alone.
    return [item.prediction for item in verdicts if isinstance(item, TextResult)]


def truncated_header(predictions: Sequence[Prediction]) -> dict[str, str]:
    """Names the texts that were cut, for answers that have no field for it.

    Returns:
        The header with their places, from 0; none if no text was cut. Of many, it names the first,
        and says how many more there are.
    """
    cut = [index for index, prediction in enumerate(predictions) if prediction.truncated]
    if not cut:
        return {}
    told = [str(index) for index in cut[:_MOST_TOLD]]
    if len(cut) > _MOST_TOLD:
        told.append(f"+{len(cut) - _MOST_TOLD}")
    return {TRUNCATED: ",".join(told)}


def invalid(loc: Loc, message: str) -> InvalidRequestError:
    """An error of one place of the body.

    Args:
        loc: the place, below the body.
        message: what is wrong and what would be right.
    """
    where = spell(("body", *loc))
    return InvalidRequestError(f"{where}: {message}.", errors=[FieldError(("body", *loc), message)])


def spell(loc: Loc) -> str:
    """Writes a place as a person would: `instances[3].text`."""
    parts = [f"[{part}]" if isinstance(part, int) else f".{part}" for part in loc]
    return "".join(parts).removeprefix(".")


def _renamed(error: ServiceError, texts: Texts) -> ServiceError:
    """The same error, with the names that the client knows."""

    def rename(words: str) -> str:
        words = _ITEM.sub(lambda found: spell(texts.locate(int(found[1]))), words)
        return words.replace(_CUT_OUR_WAY, texts.cut_by)

    def relocate(loc: Loc) -> Loc:
        if loc[:2] != ("body", "sentences"):
            return loc
        return ("body", *(texts.locate(int(loc[2])) if len(loc) > 2 else texts.field))

    errors = [FieldError(relocate(fault.loc), rename(fault.msg)) for fault in error.errors]
    return type(error)(
        rename(error.detail), errors=errors, retry_after=error.retry_after, headers=error.headers
    )
