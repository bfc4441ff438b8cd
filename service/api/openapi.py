"""Describes the interface in `/openapi.json`, from the schemas of requests and answers."""

from collections.abc import Mapping, Sequence
from typing import Any, Literal

from fastapi import FastAPI
from pydantic import BaseModel
from pydantic.json_schema import models_json_schema

from service import errors
from service.api import schemas
from service.api.attention import CSV, NPZ, SVG
from service.api.input import fields_of, kind_of
from service.http.middleware import TIMEOUT

Errors = tuple[type[errors.ServiceError], ...]
Operation = dict[str, Any]

# Which errors a route can answer, and on top of them any route.
_ANY: Errors = (errors.InternalError, errors.DrainingError, errors.DeadlineError)
_PROBED: Errors = (errors.NotReadyError,)  # no header of a probe is refused
_ASKED: Errors = (errors.MisdirectedError, errors.InvalidRequestError, errors.UnauthorizedError)
_ASSET: Errors = (*_ASKED, errors.NotFoundError)  # settings can switch these off
_PAGE: Errors = (*_ASSET, errors.NotAcceptableError)
_KEYED: Errors = (*_ASKED, errors.NotAcceptableError, errors.NotReadyError)
_PARSED: Errors = (
    errors.MalformedJsonError,
    errors.PayloadTooLargeError,
    errors.UnsupportedMediaTypeError,
)
_COMPUTED: Errors = (
    errors.SentenceTooLongError,
    errors.RateLimitedError,
    errors.OverloadedError,
)
_QUERY: Errors = (errors.CrossSiteError, *_KEYED, *_COMPUTED)
_BODY: Errors = (*_KEYED, *_PARSED, *_COMPUTED)

DESCRIPTION = """Sentiment of sentences with calibrated probabilities, and the raw attention
weights behind them. Errors are problems after RFC 9457; their `type` ends in a stable word:
""" + "\n".join(f"- `{kind.type}` ({kind.status}): {kind.title}" for kind in errors.ALL_ERRORS)

_KEY: list[dict[str, list[str]]] = [{"key": []}, {}]
_TIMEOUT = {
    "name": TIMEOUT,
    "in": "header",
    "required": False,
    "description": "Seconds until the answer is of no use, up to the service's own limit.",
    "schema": {"type": "string", "pattern": "^[0-9]{1,9}([.][0-9]{1,9})?$"},
    "example": "2.5",
}
_TEXT = {"schema": {"type": "string"}}
_BINARY = {"schema": {"type": "string", "format": "binary"}}
# A parameter tells these beside its schema.
_TOLD_BESIDE = frozenset({"title", "description", "examples", "anyOf"})


# What people read beside each path, by the id of the operation.
_SUMMARIES = {
    "predict": "Sentiment of sentences",
    "attention_of_query": "Attention of a sentence in the URL",
    "attention_of_body": "Attention of one sentence or several",
    "steps_of_query": "How a head makes its weights, for a sentence in the URL",
    "steps_of_body": "How a head makes its weights",
    "attributions_of_query": "What moved the prediction of a sentence in the URL",
    "attributions_of_body": "What moved the prediction of a sentence",
    "importance_of_query": "Importance of the heads for a sentence in the URL",
    "importance_of_body": "Importance of the heads for a sentence",
    "model": "The served model and its limits",
    "live": "Whether the process is alive",
    "ready": "Whether requests should come here",
    "metrics": "Metrics for Prometheus",
    "inputs": "Sentiment, for clients of Hugging Face",
    "inputs_of_root": "Sentiment, for clients of Hugging Face, at the root",
    "health": "Health, as TEI and vLLM answer",
    "info": "The model, as TEI describes it",
    "infer": "Inference of the Open Inference Protocol",
    "infer_version": "Inference of one version",
    "server": "The server, by the Open Inference Protocol",
    "models_v2": "The models, by the Open Inference Protocol",
    "server_live": "Whether the server is alive",
    "server_ready": "Whether the server is ready",
    "model_ready": "Whether the model is ready",
    "model_version_ready": "Whether one version is ready",
    "model_metadata": "Inputs and outputs of the model",
    "model_version_metadata": "Inputs and outputs of one version",
    "classify": "Classification, for clients of vLLM, SGLang and Dynamo",
    "classify_v1": "The same, below /v1",
    "models": "The models, for clients of OpenAI",
    "invocations": "Predictions, for MLflow and SageMaker",
    "ping": "Health, for MLflow and SageMaker",
    "version": "Version of the service",
}


def _ref(schema: type[BaseModel]) -> dict[str, str]:
    return {"$ref": f"#/components/schemas/{schema.__name__}"}


def _problems(kinds: Errors) -> dict[int | str, Any]:
    by_status: dict[int, list[type[errors.ServiceError]]] = {}
    for kind in (*kinds, *_ANY):
        by_status.setdefault(kind.status, []).append(kind)
    return {
        status: {
            "description": " Or: ".join(f"{kind.title} (`{kind.type}`)." for kind in same),
            "content": {errors.PROBLEM_MEDIA_TYPE: {"schema": _ref(schemas.Problem)}},
        }
        for status, same in sorted(by_status.items())
    }


def _operation(
    name: str,
    tag: str,
    answer: object,
    kinds: Errors,
    good: Mapping[str, Any] | None = None,
    **extra: object,
) -> Operation:
    """What a router takes; `good` tells more of the good answer than its schema does."""
    return {
        "operation_id": name,
        "tags": [tag],
        "responses": {200: {"model": answer, **(good or {})}, **_problems(kinds)},
        "openapi_extra": {"security": [] if kinds is _PROBED else _KEY, **extra},
    }


def _parameters(schema: type[BaseModel]) -> list[dict[str, Any]]:
    """The fields of a request as parameters of a query."""
    return [
        {
            "name": name,
            "in": "query",
            "required": schema.model_fields[name].is_required(),
            "description": field["description"],
            **_shape(field),
        }
        for name, field in fields_of(schema).items()
    ]


def _shape(field: Mapping[str, Any]) -> dict[str, Any]:
    """What a parameter holds: a value of its schema, or for a list of objects JSON."""
    told = {key: value for key, value in field.items() if key not in _TOLD_BESIDE}
    example = field["examples"][0] if "examples" in field else field["default"]
    if kind_of(field) != "objects":
        return {"schema": told, "example": example}
    told["items"] = _ref(schemas.HeadOff)
    return {"content": {"application/json": {"schema": told, "example": example}}}


def _body(
    fitting: Sequence[type[BaseModel]], examples: Mapping[str, tuple[str, dict[str, Any]]]
) -> dict[str, Any]:
    """A body that fits one of some schemas, with examples by their names."""
    references = [_ref(schema) for schema in fitting]
    media = {
        "schema": references[0] if len(references) == 1 else {"anyOf": references},
        "examples": {
            name: {"summary": summary, "value": value}
            for name, (summary, value) in examples.items()
        },
    }
    return {"required": True, "content": {"application/json": media}}


def _by_query_and_body(
    name: str,
    answer: type[BaseModel],
    schema: type[BaseModel],
    examples: Mapping[str, tuple[str, dict[str, Any]]],
    *,
    of_query: type[BaseModel] | None = None,
    several: type[BaseModel] | None = None,
    more: Errors = (),
    good: Mapping[str, Any] | None = None,
    tag: str | None = None,
) -> tuple[Operation, Operation]:
    """GET and POST of a path; a body may fit `several` too, whose answer is a list.

    A query fits `of_query` if that is given, else `schema`. The group is named as they are if
    `tag` is None.
    """
    tag = tag or name
    query = _parameters(of_query or schema)
    body = _body([schema, several] if several else [schema], examples)
    answers = answer | list[answer] if several else answer  # type: ignore[valid-type]
    return (
        _operation(f"{name}_of_query", tag, answer, (*_QUERY, *more), good, parameters=query),
        _operation(f"{name}_of_body", tag, answers, (*_BODY, *more), good, requestBody=body),
    )


def describe(
    name: str,
    tag: str,
    kind: Literal["computes", "describes", "probes"],
    more: Errors = (),
    *,
    answer: object = None,
    good: Mapping[str, Any] | None = None,
    **extra: object,
) -> Operation:
    """What the router of a path of another system takes.

    Args:
        name: of the operation.
        tag: its group.
        kind: decides which errors it can answer, and whether it needs a key.
        more: errors that it can answer beside them.
        answer: the schema of its good answer.
        good: more of that answer.
        extra: more of the operation, as OpenAPI has it.
    """
    kinds = {"computes": _BODY, "describes": _KEYED, "probes": _PROBED}[kind]
    kinds = (*kinds, *more) if more else kinds
    return _operation(name, tag, answer, kinds, good, **extra)


PREDICT = _operation(
    "predict",
    "sentiment",
    schemas.PredictAnswer,
    _BODY,
    requestBody=_body(
        [schemas.PredictRequest],
        {
            "one": ("One sentence", {"sentences": [schemas.EXAMPLE]}),
            "several": (
                "Several, with an error for the blank one alone",
                {
                    "sentences": ["What a wonderful film.", " ", "What a waste of time."],
                    "on_error": "item",
                },
            ),
            "sentences": (
                "A text as a whole, and each of its sentences",
                {
                    "sentences": ["The cast is superb. The plot drags!"],
                    "granularity": "sentence",
                },
            ),
            "whole": (
                "A long text as a whole, not cut",
                {"sentences": [schemas.EXAMPLE], "truncation": "window"},
            ),
            "intervened": (
                "Without a head and a token: what does the answer depend on?",
                {
                    "sentences": [schemas.EXAMPLE],
                    "head_mask": [{"layer": 0, "head": 1}],
                    "omit": [3],
                },
            ),
            "unsure": (
                "No label where the model is less sure than this",
                {"sentences": [schemas.EXAMPLE], "abstain_below": 0.9},
            ),
        },
    ),
)
ATTENTION_GET, ATTENTION_POST = _by_query_and_body(
    "attention",
    schemas.AttentionAnswer,
    schemas.AttentionRequest,
    {
        "one_head": (
            "One head of the first layer",
            {"sentence": schemas.EXAMPLE, "layer": [0], "head": [0]},
        ),
        "words": (
            "All layers joined, between words, of two sentences",
            {
                "sentences": [schemas.EXAMPLE, "The plot drags, and the cast is dull."],
                "reduce": "rollout",
                "level": "word",
            },
        ),
    },
    of_query=schemas.AttentionQuery,
    several=schemas.AttentionListRequest,
    more=(errors.TooManyWeightsError,),
    good={"content": {NPZ: _BINARY, CSV: _TEXT, SVG: _TEXT}},
)
STEPS_GET, STEPS_POST = _by_query_and_body(
    "steps",
    schemas.StepsAnswer,
    schemas.StepsRequest,
    {
        "steps": (
            "The weights that the second token gives, in one head",
            {"sentence": schemas.EXAMPLE, "layer": 0, "head": 0, "query": 1},
        )
    },
    of_query=schemas.StepsQuery,
    more=(errors.TooManyWeightsError,),
    tag="attention",
)
ATTRIBUTIONS_GET, ATTRIBUTIONS_POST = _by_query_and_body(
    "attributions",
    schemas.AttributionsAnswer,
    schemas.AttributionsRequest,
    {"attributions": ("Of words", {"sentence": schemas.EXAMPLE, "level": "word"})},
)
IMPORTANCE_GET, IMPORTANCE_POST = _by_query_and_body(
    "importance",
    schemas.ImportanceAnswer,
    schemas.ImportanceRequest,
    {"importance": ("Of every head", {"sentence": schemas.EXAMPLE})},
)
MODEL = _operation("model", "model", schemas.ModelAnswer, _KEYED)
LIVE = _operation("live", "health", schemas.HealthAnswer, _PROBED)
READY = _operation("ready", "health", schemas.HealthAnswer, _PROBED)
METRICS = _operation(
    "metrics",
    "health",
    None,
    _PAGE,
    {
        "description": "Prometheus text, or OpenMetrics where `Accept` prefers it",
        "content": {"text/plain": _TEXT, "application/openmetrics-text": _TEXT},
    },
)
PAGE, ASSET = _problems(_PAGE), _problems(_ASSET)
_REQUESTS = (
    *(schemas.PredictRequest, schemas.AttentionRequest, schemas.AttentionListRequest),
    *(schemas.StepsRequest, schemas.AttributionsRequest, schemas.ImportanceRequest),
)


def install_openapi(
    app: FastAPI, limits: Mapping[str, Any], elsewhere: Sequence[type[BaseModel]] = ()
) -> None:
    """Makes `app.openapi()` complete.

    Args:
        app: has all its routes.
        limits: of requests, by the settings and the model, as the schemas look them up.
        elsewhere: the schemas of what clients of other systems send.
    """
    document = app.openapi()
    components = document["components"]
    described: list[type[BaseModel]] = [*_REQUESTS, *elsewhere, schemas.Problem]
    _, definitions = models_json_schema(
        [(schema, "validation") for schema in described],
        ref_template="#/components/schemas/{model}",
    )
    components["schemas"] |= definitions["$defs"]
    components["securitySchemes"] = {
        "key": {"type": "http", "scheme": "bearer", "description": "Needed if API keys are set."}
    }
    for schema in (*_REQUESTS, schemas.HeadOff):
        for name, field in components["schemas"][schema.__name__]["properties"].items():
            _limit(name, field.get("anyOf", [field])[0], limits)
    for operations in document["paths"].values():
        for operation in operations.values():
            operation["summary"] = _SUMMARIES[operation["operationId"]]
            parameters = operation.get("parameters", [])
            for parameter in parameters:
                if "schema" in parameter:
                    _limit(parameter["name"], parameter["schema"], limits)
                if parameter["name"] == "label":
                    parameter["example"] = limits["labels"][0]
            if operation.get("security") == _KEY:
                operation["parameters"] = [*parameters, _TIMEOUT]


def _limit(name: str, field: dict[str, Any], limits: Mapping[str, Any]) -> None:
    """Adds what holds for this model and these settings to the schema of a field."""
    if name == "sentences":
        field["maxItems"] = limits["max_sentences"]
    elif name == "label":
        field["enum"] = list(limits["labels"])
    elif name in ("layer", "head") and field["type"] == "integer":
        field["maximum"] = limits[f"{name}s"] - 1
    elif name in ("layer", "head"):
        field["items"] = {**field["items"], "maximum": limits[f"{name}s"] - 1}
