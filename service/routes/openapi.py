"""Completes what FastAPI writes in `/openapi.json`: errors, keys, and the limits of this service.

Bodies, queries and answers come from the types of the endpoints.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Literal

import orjson
from fastapi import FastAPI
from starlette.responses import JSONResponse, Response

from service import errors
from service.http.middleware import TIMEOUT
from service.routes.schemas import Problem

Kind = type[errors.ServiceError]

# Which errors a route can answer, and on top of them any route.
_ANY: tuple[Kind, ...] = (errors.InternalError, errors.DrainingError, errors.DeadlineError)
_PROBED: tuple[Kind, ...] = (errors.NotReadyError,)  # no header of a probe is refused
_ASKED: tuple[Kind, ...] = (
    errors.MisdirectedError,
    errors.InvalidRequestError,
    errors.UnauthorizedError,
)
# Settings can switch these off.
_PAGE: tuple[Kind, ...] = (*_ASKED, errors.NotFoundError, errors.NotAcceptableError)
_KEYED: tuple[Kind, ...] = (*_ASKED, errors.NotAcceptableError, errors.NotReadyError)
_COMPUTED: tuple[Kind, ...] = (
    *_KEYED,
    errors.TooMuchWorkError,
    errors.SentenceTooLongError,
    errors.RateLimitedError,
    errors.OverloadedError,
)
_INPUT: dict[str, tuple[Kind, ...]] = {
    "query": (errors.CrossSiteError,),
    "body": (
        errors.MalformedJsonError,
        errors.PayloadTooLargeError,
        errors.UnsupportedMediaTypeError,
    ),
}

DESCRIPTION = """Sentiment of sentences with calibrated probabilities, and the raw attention
weights behind them. Errors are problems after RFC 9457, [each with its own type](problems)."""

_KEY: list[dict[str, list[str]]] = [{"key": []}, {}]


def parameter(name: str, place: str, description: str, **more: Any) -> dict[str, Any]:  # noqa: ANN401
    """Describes a parameter of a path or a header; a string, unless `more` has a `schema`."""
    return {
        "name": name,
        "in": place,
        "required": place == "path",
        "description": description,
        "schema": {"type": "string"},
        **more,
    }


def header(description: str, example: str) -> dict[str, Any]:
    """Describes a header of an answer."""
    return {"description": description, "schema": {"type": "string"}, "example": example}


_TIMEOUT = parameter(
    TIMEOUT,
    "header",
    "Seconds until the answer is useless, up to the service's own limit.",
    schema={
        "type": "string",
        "pattern": "^([1-9][0-9]{0,8}([.][0-9]{1,9})?|0[.][0-9]{0,8}[1-9])$",
    },
)
_LIMITED = {
    "RateLimit-Policy": header("The limits of the client, if it has any.", '"requests";q=600;w=60'),
    "RateLimit": header("What is left of each, for `t` seconds.", '"requests";r=599;t=1'),
}


def problems(*kinds: Kind) -> dict[int | str, dict[str, Any]]:
    """Returns `responses` of a route for the errors that it can answer."""
    by_status: dict[int, list[Kind]] = {}
    for kind in (*kinds, *_ANY):
        by_status.setdefault(kind.status, []).append(kind)
    return {
        status: {
            "model": Problem,
            "description": " Or: ".join(f"{kind.title} (`{kind.type}`)." for kind in same),
            **({"headers": _LIMITED} if errors.RateLimitedError in same else {}),
        }
        for status, same in sorted(by_status.items())
    }


def computes(
    source: Literal["query", "body"],
    answer: object,
    *more: Kind,
    good: Mapping[str, Any] | None = None,
    **extra: Any,  # noqa: ANN401 - anything that OpenAPI holds
) -> dict[str, Any]:
    """Returns what a router is given for a route that computes what its `source` asks for.

    `more` are errors that other such routes do not have, `good` is what a good answer has beside
    its schema, and `extra` are further members of the operation.
    """
    return _operation((*_COMPUTED, *_INPUT[source], *more), answer, good, **extra)


def describes(answer: object, *more: Kind, **extra: Any) -> dict[str, Any]:  # noqa: ANN401
    """Returns the same for a route that describes the model."""
    return _operation((*_KEYED, *more), answer, None, **extra)


def shows(good: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the same for a route that settings open or switch off."""
    return _operation(_PAGE, None, good)


def probes(answer: object, good: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """Returns the same for a route that needs no key."""
    return _operation(_PROBED, answer, good, needs_key=False)


def _operation(
    kinds: tuple[Kind, ...],
    answer: object,
    good: Mapping[str, Any] | None,
    *,
    needs_key: bool = True,
    parameters: tuple[dict[str, Any], ...] = (),
    **extra: Any,  # noqa: ANN401
) -> dict[str, Any]:
    found, extra["security"] = {**(good or {})}, _KEY if needs_key else []
    if needs_key:
        found["headers"] = {**_LIMITED, **found.get("headers", {})}
        extra["parameters"] = [*parameters, _TIMEOUT]
    return {
        "responses": {200: {"model": answer, **found}, **problems(*kinds)},
        # Without a schema of JSON an answer has only the media types that `good` names.
        "response_class": Response if answer is None else JSONResponse,
        "openapi_extra": extra,
    }


def write_openapi(app: FastAPI, limits: Mapping[str, Any]) -> bytes:
    """Writes what describes the interface, once the app has all routes; schemas look up `limits`.

    It takes a fifth of a second.
    """
    document = app.openapi()
    components = document["components"]
    components["securitySchemes"] = {
        "key": {"type": "http", "scheme": "bearer", "description": "Needed if API keys are set."}
    }
    for name, schema in components["schemas"].items():
        if name.endswith("Request") or name == "HeadOff":
            for field, described in schema["properties"].items():
                _add_limit(field, described.get("anyOf", [described])[0], limits)
    for operations in document["paths"].values():
        for operation in operations.values():
            _choose_examples(operation, limits["labels"])
            for parameter in operation.get("parameters", ()):
                if parameter["in"] == "query":
                    _describe_parameter(parameter, limits)
            for status, response in operation["responses"].items():
                if status >= "400":
                    content = response["content"]
                    content[errors.PROBLEM_MEDIA_TYPE] = content.pop("application/json")
    return orjson.dumps(document)


def _choose_examples(operation: dict[str, Any], labels: Sequence[str]) -> None:
    """Lets the examples of a body that choose among labels name those of the model."""
    sent = operation.get("requestBody", {"content": {}})["content"].get("application/json", {})
    for example in sent.get("examples", {}).values():
        if "labels" in example["value"]:
            example["value"] = {**example["value"], "labels": list(labels[:2])}


def _describe_parameter(parameter: dict[str, Any], limits: Mapping[str, Any]) -> None:
    """Describes a parameter as it is read: never null, and a list of objects as JSON."""
    schema = parameter.pop("schema")
    schema |= schema.pop("anyOf", [{}])[0]
    for beside in ("title", "description"):  # the parameter has them
        schema.pop(beside, None)
    default = schema.get("default")
    example = schema.pop("examples", [default])[0]
    _add_limit(parameter["name"], schema, limits)
    if parameter["name"] == "labels":
        example = list(limits["labels"][:2])
    if "$ref" in schema.get("items", {}):
        media = {"schema": schema, "example": example}
        parameter["content"] = {"application/json": media}
    else:
        parameter |= {"schema": schema, "example": example}


def _add_limit(name: str, field: dict[str, Any], limits: Mapping[str, Any]) -> None:
    """Adds what holds for this model and these settings to the schema of a field."""
    if name == "sentences":
        field["maxItems"] = limits["max_sentences"]
    elif name == "label":
        field["enum"] = list(limits["labels"])
    elif name == "labels":
        field["items"] = {**field["items"], "enum": list(limits["labels"])}
        field |= {"minItems": 2, "uniqueItems": True}
    elif name in ("layer", "head") and field["type"] == "integer":
        field["maximum"] = limits[f"{name}s"] - 1
    elif name in ("layer", "head"):
        field["items"] = {**field["items"], "maximum": limits[f"{name}s"] - 1}
