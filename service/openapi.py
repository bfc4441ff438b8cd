"""What `/openapi.json` says of each route: answers, errors, and examples that work."""

from typing import Any

from fastapi import FastAPI
from pydantic import BaseModel
from pydantic.json_schema import models_json_schema

from service.errors import (
    ALL_ERRORS,
    PROBLEM_MEDIA_TYPE,
    DeadlineError,
    DrainingError,
    InternalError,
    InvalidRequestError,
    MalformedJsonError,
    NotAcceptableError,
    NotFoundError,
    NotReadyError,
    OverloadedError,
    PayloadTooLargeError,
    SentenceTooLongError,
    ServiceError,
    TooManyWeightsError,
    UnauthorizedError,
    UnsupportedMediaTypeError,
)
from service.schemas import (
    AttentionAnswer,
    AttentionRequest,
    HealthAnswer,
    ModelAnswer,
    PredictAnswer,
    PredictRequest,
    Problem,
)
from service.settings import Settings

Kind = type[ServiceError]
Operation = dict[str, Any]

_ALWAYS: tuple[Kind, ...] = (InternalError, DrainingError, DeadlineError)
_KEYED: tuple[Kind, ...] = (UnauthorizedError, NotAcceptableError, NotReadyError)
_BODY: tuple[Kind, ...] = (
    MalformedJsonError,
    PayloadTooLargeError,
    UnsupportedMediaTypeError,
    InvalidRequestError,
)
_COMPUTED: tuple[Kind, ...] = (SentenceTooLongError, OverloadedError)
_KEY: list[dict[str, list[str]]] = [{"key": []}, {}]

DESCRIPTION = """Sentiment of sentences with calibrated probabilities, and the raw attention
weights behind them. Errors are problems after RFC 9457; their `type` ends in a stable word:
""" + "\n".join(f"- `{kind.type}` ({kind.status}): {kind.title}" for kind in ALL_ERRORS)


def _ref(schema: type[BaseModel]) -> dict[str, str]:
    return {"$ref": f"#/components/schemas/{schema.__name__}"}


def _problems(*kinds: Kind) -> dict[int | str, Any]:
    by_status: dict[int, list[Kind]] = {}
    for kind in (*kinds, *_ALWAYS):
        by_status.setdefault(kind.status, []).append(kind)
    return {
        status: {
            "description": " Or: ".join(f"{kind.title} (`{kind.type}`)." for kind in same),
            "content": {PROBLEM_MEDIA_TYPE: {"schema": _ref(Problem)}},
        }
        for status, same in sorted(by_status.items())
    }


def _operation(
    name: str,
    tag: str,
    answer: type[BaseModel],
    *kinds: Kind,
    keyed: bool = False,
    **extra: object,
) -> Operation:
    return {
        "operation_id": name,
        "tags": [tag],
        "responses": {200: {"model": answer}, **_problems(*kinds)},
        "openapi_extra": {"security": _KEY if keyed else [], **extra},
    }


def _body(schema: type[BaseModel], examples: dict[str, Any]) -> dict[str, Any]:
    media = {"schema": _ref(schema), "examples": examples}
    return {"required": True, "content": {"application/json": media}}


def _parameter(
    name: str, schema: dict[str, Any], description: str, example: object, *, required: bool = False
) -> dict[str, Any]:
    return {
        "name": name,
        "in": "query",
        "required": required,
        "description": description,
        "schema": schema,
        "example": example,
    }


def _numbers(kind: str) -> dict[str, Any]:
    schema = {"type": "array", "items": {"type": "integer", "minimum": 0}, "minItems": 1}
    text = f"Number of a wanted {kind}, may be repeated; all if left out."
    return _parameter(kind, schema, text, [0])


_SENTENCE = "The plot drags, but the cast is superb."

PREDICT = _operation(
    "predict",
    "sentiment",
    PredictAnswer,
    *_KEYED,
    *_BODY,
    *_COMPUTED,
    keyed=True,
    requestBody=_body(
        PredictRequest,
        {
            "one": {"summary": "One sentence", "value": {"sentences": [_SENTENCE]}},
            "several": {
                "summary": "Several, with an error for the blank one alone",
                "value": {
                    "sentences": ["What a wonderful film.", " ", "What a waste of time."],
                    "on_error": "item",
                },
            },
        },
    ),
)
ATTENTION_GET = _operation(
    "attention_of_query",
    "attention",
    AttentionAnswer,
    *_KEYED,
    InvalidRequestError,
    *_COMPUTED,
    TooManyWeightsError,
    keyed=True,
    parameters=[
        _parameter(
            "sentence", {"type": "string"}, "The text, not blank.", _SENTENCE, required=True
        ),
        _numbers("layer"),
        _numbers("head"),
        _parameter(
            "truncation",
            {"type": "string", "enum": ["right", "left", "error"], "default": "right"},
            "Which end of a text that is too long is cut off; `error` refuses it.",
            "right",
        ),
    ],
)
ATTENTION_POST = _operation(
    "attention_of_body",
    "attention",
    AttentionAnswer,
    *_KEYED,
    *_BODY,
    *_COMPUTED,
    TooManyWeightsError,
    keyed=True,
    requestBody=_body(
        AttentionRequest,
        {
            "one_head": {
                "summary": "One head of the first layer",
                "value": {"sentence": _SENTENCE, "layer": [0], "head": [0]},
            }
        },
    ),
)
MODEL = _operation("model", "model", ModelAnswer, *_KEYED, keyed=True)
LIVE = _operation("live", "health", HealthAnswer)
READY = _operation("ready", "health", HealthAnswer, NotReadyError)
METRICS: Operation = {
    "operation_id": "metrics",
    "tags": ["health"],
    "responses": {
        200: {
            "description": "Prometheus text",
            "content": {"text/plain": {"schema": {"type": "string"}}},
        },
        **_problems(NotAcceptableError),
    },
    "openapi_extra": {"security": []},
}
PAGE = _problems(NotAcceptableError)
ASSET = _problems(NotFoundError)


def install_openapi(app: FastAPI, settings: Settings) -> None:
    """Makes `app.openapi()` complete: schemas of bodies and problems, limits of this replica.

    Args:
        app: its routes are all there.
        settings: whose limits are shown.
    """
    document = app.openapi()
    _, definitions = models_json_schema(
        [(schema, "validation") for schema in (PredictRequest, AttentionRequest, Problem)],
        ref_template="#/components/schemas/{model}",
    )
    schemas = document["components"].setdefault("schemas", {})
    schemas.update(definitions["$defs"])
    schemas["PredictRequest"]["properties"]["sentences"]["maxItems"] = settings.max_sentences
    document["components"]["securitySchemes"] = {
        "key": {"type": "http", "scheme": "bearer", "description": "Needed if API keys are set."}
    }
    app.openapi_schema = document
