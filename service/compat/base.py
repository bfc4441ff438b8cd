"""Holds what the protocols of other systems share.

Each is a router of its own. It turns a body into `Texts`, and `answer_texts` answers them. Problems
on its paths repeat their detail as `error`, because that is what these systems' clients read.
"""

from collections.abc import Callable, Iterable, Sequence
from typing import Annotated, Any

from fastapi import APIRouter
from fastapi.routing import APIRoute
from pydantic import BeforeValidator, ConfigDict, WithJsonSchema, model_validator
from starlette.responses import Response
from starlette.types import Scope

from model import Prediction
from model.reading import ReadingOptions
from model.types import TextResult
from service.errors import Loc, ServiceError, invalid
from service.routes.bodies import RequestBody, counting
from service.routes.openapi import header
from service.routes.requests import SCHEMA, RequestContext, json_response
from service.routes.texts import Texts, classify, only
from service.routes.wording import only_one_unknown

TAG = "Other systems"
TRUNCATED = "X-Headlight-Truncated"
#: beside the answer of a path that classifies: the header that names the texts that were cut
CUT_HEADER = {
    "headers": {TRUNCATED: header("Indices, from 0, of the texts that were cut, if any.", "1,3")}
}

# Clients and proxies limit the size of headers.
_MOST_CUT = 100

Counted = BeforeValidator(counting("texts"))
# A text or a list of texts, as `/openapi.json` describes it; any other value has its own error.
TextOrList = Annotated[
    object,
    WithJsonSchema({"anyOf": [{"type": "string"}, {"type": "array", "items": {"type": "string"}}]}),
    Counted,
]


def _allow_null(schema: dict[str, Any]) -> None:
    for name, described in schema["properties"].items():
        if name in schema.get("required", ()):
            continue
        if "anyOf" not in described:
            kind = described.keys() - {"title", "default", "description"}
            described["anyOf"] = [{key: described.pop(key) for key in kind}]
        if {"type": "null"} not in described["anyOf"]:
            described["anyOf"].append({"type": "null"})


class OtherBody(RequestBody):
    """A body in the form of another system, or an object within it.

    Their clients send null for what they leave out, known here or not.
    """

    model_config = ConfigDict(json_schema_extra=_allow_null)

    @model_validator(mode="before")
    @classmethod
    def _only_one_unknown(cls, value: object) -> object:
        if not isinstance(value, dict):
            return value
        known = cls.model_fields
        given = {
            name: item
            for name, item in value.items()
            if item is not None or (name in known and known[name].is_required())
        }
        return given if given.keys() <= known.keys() else only_one_unknown(given, known)


async def answer_texts(
    context: RequestContext, texts: Texts, write: Callable[[list[Prediction]], object]
) -> Response:
    """Classifies all texts of a request, or none; `write` makes the answer of their predictions.

    Raises as `predict_texts`.
    """
    predictions = await predict_texts(context, texts)
    return json_response(write(predictions), truncated_header(predictions))


def texts_in(given: object, field: Loc, options: ReadingOptions, **named: Any) -> Texts:  # noqa: ANN401
    """Returns a text or a list of texts; raises InvalidRequestError for anything else."""
    if isinstance(given, str):
        return Texts([given], options, field, only, **named)
    if not isinstance(given, list):
        raise wrong(field, "must be a text or a list of texts")
    return Texts(given, options, field, **named)


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


def wrong(loc: Loc, message: str) -> ServiceError:
    """Returns an error of one place of the body, `loc` below the body."""
    return invalid(("body", *loc), message)


def repeats_detail(routers: Iterable[APIRouter]) -> Callable[[Scope], bool]:
    """Returns a function that says whether a problem of a request repeats its detail as `error`.

    It also knows requests that reach no route: of another method, or below a path such as `/v1`
    that only other systems have. The path `/` is a page too, so there the method counts; at our own
    `/predict`, the body.
    """
    routes = [each for router in routers for each in router.routes if isinstance(each, APIRoute)]
    at_root = {method for route in routes if route.path == "/" for method in route.methods or ()}
    parts = [route.path.split("/") for route in routes if route.path != "/"]
    exact = {part[1] for part in parts if len(part) == 2}
    above = {part[1] for part in parts if len(part) > 2}

    def repeats(scope: Scope) -> bool:
        if issubclass(scope.get(SCHEMA, object), OtherBody):
            return True
        first, *below = scope["path"].split("/")[1:] or [""]
        if not first and not below:
            return scope["method"] in at_root
        return first in above or (first in exact and not below)

    return repeats
