"""What `/openapi.json` says of each route: answers, errors, and examples that work."""

from typing import Any

from pydantic import BaseModel

from service.api.answer_schemas import (
    AttentionAnswer,
    AttributionsAnswer,
    HealthAnswer,
    ImportanceAnswer,
    ModelAnswer,
    PredictAnswer,
    Problem,
)
from service.api.forms import CSV, NPZ, SVG
from service.api.schemas import (
    AttentionListRequest,
    AttentionRequest,
    AttributionsRequest,
    ImportanceRequest,
    PredictRequest,
)
from service.errors import (
    ALL_ERRORS,
    PROBLEM_MEDIA_TYPE,
    DeadlineError,
    DrainingError,
    InternalError,
    InvalidRequestError,
    MalformedJsonError,
    MisdirectedError,
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

Kind = type[ServiceError]
Operation = dict[str, Any]

_ALWAYS: tuple[Kind, ...] = (InternalError, DrainingError, DeadlineError)
# Of all but health, which no header of a prober's can turn away.
_ASKED: tuple[Kind, ...] = (MisdirectedError, InvalidRequestError)
_KEYED: tuple[Kind, ...] = (*_ASKED, UnauthorizedError, NotAcceptableError, NotReadyError)
# Of what can be switched off, or put behind the key.
_OPTIONAL: tuple[Kind, ...] = (*_ASKED, UnauthorizedError, NotFoundError)
_BODY: tuple[Kind, ...] = (
    MalformedJsonError,
    PayloadTooLargeError,
    UnsupportedMediaTypeError,
)
_COMPUTED: tuple[Kind, ...] = (SentenceTooLongError, OverloadedError)
KEY: list[dict[str, list[str]]] = [{"key": []}, {}]

_SENTENCE = "The plot drags, but the cast is superb."
# Of a field, what a parameter says in a place of its own.
_TOLD_ELSEWHERE = frozenset({"title", "description"})

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
    answer: object,
    *kinds: Kind,
    keyed: bool = False,
    forms: dict[str, Any] | None = None,
    **extra: object,
) -> Operation:
    return {
        "operation_id": name,
        "tags": [tag],
        "responses": {200: {"model": answer, "content": forms or {}}, **_problems(*kinds)},
        "openapi_extra": {"security": KEY if keyed else [], **extra},
    }


def _body(schema: dict[str, Any], examples: dict[str, Any]) -> dict[str, Any]:
    media = {"schema": schema, "examples": examples}
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


def _parameters(schema: type[BaseModel]) -> list[dict[str, Any]]:
    """The fields of a request as parameters of a query."""
    content = schema.model_json_schema()
    parameters = []
    for name, field in content["properties"].items():
        kinds = [kind for kind in field.get("anyOf", [field]) if kind.get("type") != "null"]
        told = {key: value for key, value in kinds[0].items() if key not in _TOLD_ELSEWHERE}
        required = name in content.get("required", ())
        example = _SENTENCE if name == "sentence" else field.get("default")
        parameters.append(_parameter(name, told, field["description"], example, required=required))
    return parameters


def _numbers(kind: str) -> dict[str, Any]:
    schema = {"type": "array", "items": {"type": "integer", "minimum": 0}, "minItems": 1}
    text = f"Number of a wanted {kind}, may be repeated; all if left out."
    return _parameter(kind, schema, text, [0])


def _choice(name: str, choices: list[str], description: str) -> dict[str, Any]:
    schema = {"type": "string", "enum": choices}
    return _parameter(name, schema, description, choices[0])


def _explaining(
    name: str, answer: type[BaseModel], asked: type[BaseModel], example: dict[str, Any]
) -> tuple[Operation, Operation]:
    """GET and POST of a path that explains a label."""
    kinds = (*_KEYED, *_COMPUTED)
    body = _body(_ref(asked), {name: example})
    query = _parameters(asked)
    return (
        _operation(f"{name}_of_query", name, answer, *kinds, keyed=True, parameters=query),
        _operation(f"{name}_of_body", name, answer, *kinds, *_BODY, keyed=True, requestBody=body),
    )


PREDICT = _operation(
    "predict",
    "sentiment",
    PredictAnswer,
    *_KEYED,
    *_BODY,
    *_COMPUTED,
    keyed=True,
    requestBody=_body(
        _ref(PredictRequest),
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
_TRUNCATION = _choice(
    "truncation",
    ["right", "left", "error"],
    "Which end of a text that is too long is cut off; `error` refuses it.",
)
_FORMS: dict[str, Any] = {
    NPZ: {"schema": {"type": "string", "format": "binary"}},
    CSV: {"schema": {"type": "string"}},
    SVG: {"schema": {"type": "string"}},
}
ATTENTION_GET = _operation(
    "attention_of_query",
    "attention",
    AttentionAnswer,
    *_KEYED,
    *_COMPUTED,
    TooManyWeightsError,
    keyed=True,
    forms=_FORMS,
    parameters=[
        _parameter(
            "sentence", {"type": "string"}, "The text, not blank.", _SENTENCE, required=True
        ),
        _numbers("layer"),
        _numbers("head"),
        _TRUNCATION,
        _choice(
            "reduce",
            ["none", "mean", "max", "rollout"],
            "Joins the heads of each layer to one map; `rollout` joins the layers too.",
        ),
        _choice("level", ["token", "word"], "What rows and columns stand for."),
        _choice("format", ["json", "npz", "csv", "svg"], "The form; as `Accept` says if left out."),
        _choice("dtype", ["float32", "float16"], "Of the weights in the form `npz`."),
    ],
)
ATTENTION_POST = _operation(
    "attention_of_body",
    "attention",
    AttentionAnswer | list[AttentionAnswer],
    *_KEYED,
    *_BODY,
    *_COMPUTED,
    TooManyWeightsError,
    keyed=True,
    forms=_FORMS,
    requestBody=_body(
        {"anyOf": [_ref(AttentionRequest), _ref(AttentionListRequest)]},
        {
            "one_head": {
                "summary": "One head of the first layer",
                "value": {"sentence": _SENTENCE, "layer": [0], "head": [0]},
            },
            "words": {
                "summary": "All layers joined, between words, of two sentences",
                "value": {
                    "sentences": [_SENTENCE, "The plot drags, and the cast is dull."],
                    "reduce": "rollout",
                    "level": "word",
                },
            },
        },
    ),
)
ATTRIBUTIONS_GET, ATTRIBUTIONS_POST = _explaining(
    "attributions",
    AttributionsAnswer,
    AttributionsRequest,
    {"summary": "Of words", "value": {"sentence": _SENTENCE, "level": "word"}},
)
IMPORTANCE_GET, IMPORTANCE_POST = _explaining(
    "importance",
    ImportanceAnswer,
    ImportanceRequest,
    {"summary": "Of every head", "value": {"sentence": _SENTENCE}},
)
MODEL = _operation("model", "model", ModelAnswer, *_KEYED, keyed=True)
LIVE = _operation("live", "health", HealthAnswer, NotReadyError)
READY = _operation("ready", "health", HealthAnswer, NotReadyError)
METRICS: Operation = {
    "operation_id": "metrics",
    "tags": ["health"],
    "responses": {
        200: {
            "description": "Prometheus text",
            "content": {"text/plain": {"schema": {"type": "string"}}},
        },
        **_problems(*_OPTIONAL, NotAcceptableError),
    },
    "openapi_extra": {"security": KEY},
}
PAGE = _problems(*_OPTIONAL, NotAcceptableError)
ASSET = _problems(*_OPTIONAL)
