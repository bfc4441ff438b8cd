"""Holds what the paths of all other systems share: bodies, texts, errors and descriptions."""

import zlib
from collections.abc import Callable, Iterable, Sequence
from typing import Annotated, Any

from fastapi import APIRouter
from fastapi.routing import APIRoute
from pydantic import BeforeValidator, WithJsonSchema
from starlette.types import Scope

from model import Prediction
from model.reading import TextResult
from service.api.input import counting, receive, reject_size
from service.api.requests import RequestContext
from service.api.texts import Loc, Texts, classify, spell
from service.errors import (
    FieldError,
    InvalidRequestError,
    MalformedJsonError,
    UnsupportedMediaTypeError,
)

TAG = "Other systems"
TRUNCATED = "X-Headlight-Truncated"
#: beside the answer of a path that classifies: the header that names the texts that were cut
CUT_HEADER = {
    "headers": {
        TRUNCATED: {
            "description": "Indices, from 0, of the texts that were cut; no header if none was.",
            "schema": {"type": "string"},
            "example": "1,3",
        }
    }
}

# Clients and proxies limit the size of headers.
_MOST_CUT = 100
_GZIP = 16 + zlib.MAX_WBITS  # a gzip head and end are expected
_FOREIGN = "headlight.foreign"


count_texts = counting("texts")
Counted = BeforeValidator(count_texts)
# A text or a list of texts, as `/openapi.json` describes it; any other value has its own error.
TextOrList = Annotated[
    object,
    WithJsonSchema({"anyOf": [{"type": "string"}, {"type": "array", "items": {"type": "string"}}]}),
    Counted,
]


async def predict_texts(context: RequestContext, texts: Texts) -> list[Prediction]:
    """Classifies all texts of a request, or none; raises as `classify`, and if there is no text."""
    if not texts.items:
        raise wrong(texts.field, "no text is given: send at least one")
    results = await classify(context, texts)
    return [result.prediction for result in results if isinstance(result, TextResult)]


def truncated_header(predictions: Sequence[Prediction]) -> dict[str, str]:
    """Returns a header with the indices of the texts that were cut; of many, the first."""
    cut = [str(index) for index, each in enumerate(predictions) if each.truncated]
    if len(cut) > _MOST_CUT:
        cut[_MOST_CUT:] = [f"+{len(cut) - _MOST_CUT}"]
    return {TRUNCATED: ",".join(cut)} if cut else {}


def wrong(loc: Loc, message: str) -> InvalidRequestError:
    """Returns an error of one place of the body, `loc` below the body."""
    loc = ("body", *loc)
    return InvalidRequestError(f"{spell(loc)}: {message}.", errors=[FieldError(loc, message)])


def mark_foreign(scope: Scope) -> None:
    """Notes that a request has the form of another system, though its path is our own."""
    scope[_FOREIGN] = True


def foreign_requests(routers: Iterable[APIRouter]) -> Callable[[Scope], bool]:
    """Returns a function that says whether a problem repeats its detail as `error`.

    It also knows requests that reach no route: of another method, or below a path such as `/v1`
    that only other systems have. The path `/` is a page too, so there the method counts.
    """
    routes = [each for router in routers for each in router.routes if isinstance(each, APIRoute)]
    at_root = {method for route in routes if route.path == "/" for method in route.methods or ()}
    parts = [route.path.split("/") for route in routes if route.path != "/"]
    exact = {part[1] for part in parts if len(part) == 2}
    above = {part[1] for part in parts if len(part) > 2}

    def is_foreign(scope: Scope) -> bool:
        first, *below = scope["path"].split("/")[1:] or [""]
        if not first and not below:
            return scope["method"] in at_root or _FOREIGN in scope
        return first in above or (first in exact and not below) or _FOREIGN in scope

    return is_foreign


async def read_content(context: RequestContext, *media_types: str) -> bytes:
    """Reads a body that may lack its Content-Type and may be compressed by gzip.

    A browser sends a body without a type for any page, without asking first. So the caller must
    have refused requests that come from other sites.

    Args:
        context: its body is not read yet. The limit holds for it as sent and as unpacked.
        media_types: the types that a body may name, without parameters.

    Raises:
        PayloadTooLargeError: the body is larger, by its declared length, by its bytes, or unpacked.
        UnsupportedMediaTypeError: it has another type, or another encoding.
        MalformedJsonError: it is not gzip though it says so.
    """
    request, max_bytes = context.request, context.state.settings.max_body_bytes
    content = await receive(request, max_bytes)
    given = [_essence(each) for each in request.headers.getlist("content-type")]
    if len(given) > 1 or not set(given) <= set(media_types):
        raise UnsupportedMediaTypeError(
            f"The body must be {' or '.join(media_types)}: name its type in Content-Type, or none.",
            headers={"Accept": ", ".join(media_types)},
        )
    encodings = {each.strip().lower() for each in request.headers.getlist("content-encoding")}
    encodings -= {"", "identity"}
    if encodings and encodings != {"gzip"}:
        raise UnsupportedMediaTypeError(
            "The body is encoded (Content-Encoding): send it as it is, or compress it with gzip.",
            headers={"Accept-Encoding": "gzip"},
        )
    if not encodings:
        return content
    return await context.parse(content, lambda: unpack(content, max_bytes), costly=True)


def unpack(content: bytes, max_bytes: int) -> bytes:
    """Unpacks one gzip member; never holds more than the limit and one byte.

    Raises:
        PayloadTooLargeError: the result would be larger.
        MalformedJsonError: the content is not complete, or something else.
    """
    member = zlib.decompressobj(_GZIP)
    try:
        unpacked = member.decompress(content, max_bytes + 1)
    except zlib.error as error:
        raise MalformedJsonError(
            "The body is not gzip, though Content-Encoding says so."
        ) from error
    if len(unpacked) > max_bytes:
        reject_size("The body is longer than it may be once it is unpacked", max_bytes)
    if not member.eof:
        raise MalformedJsonError("The gzip body ends too early: send all of it.")
    if member.unused_data:
        raise MalformedJsonError("Something follows the gzip body: send one gzip member only.")
    return unpacked


def _essence(content_type: str) -> str:
    return content_type.partition(";")[0].strip().lower()


def example(summary: str, value: dict[str, Any]) -> dict[str, Any]:
    """Describes an example of a body."""
    return {"summary": summary, "value": value}
