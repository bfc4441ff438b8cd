"""From the routes to `/openapi.json`: with schemas of bodies and problems, limits and labels."""

from collections.abc import Sequence

from fastapi import FastAPI
from pydantic.json_schema import models_json_schema

from service.api.answer_schemas import Problem
from service.api.openapi import KEY
from service.api.schemas import (
    AttentionListRequest,
    AttentionRequest,
    AttributionsRequest,
    ImportanceRequest,
    PredictRequest,
)
from service.http.middleware import TIMEOUT
from service.settings import Settings

_BODIES = (
    PredictRequest,
    AttentionRequest,
    AttentionListRequest,
    AttributionsRequest,
    ImportanceRequest,
    Problem,
)

_TIMEOUT = {
    "name": TIMEOUT,
    "in": "header",
    "required": False,
    "description": "Seconds until the answer is of no use, up to the service's own limit.",
    "schema": {"type": "string", "pattern": "^[0-9]{1,9}([.][0-9]{1,9})?$"},
    "example": "2.5",
}


def install_openapi(app: FastAPI, settings: Settings, labels: Sequence[str]) -> None:
    """Makes `app.openapi()` complete.

    Args:
        app: its routes are all there.
        settings: whose limits are shown.
        labels: of the model that is served.
    """
    document = app.openapi()
    _, definitions = models_json_schema(
        [(schema, "validation") for schema in _BODIES],
        ref_template="#/components/schemas/{model}",
    )
    schemas = document["components"].setdefault("schemas", {})
    schemas.update(definitions["$defs"])
    for several in (PredictRequest, AttentionListRequest):
        properties = schemas[several.__name__]["properties"]
        properties["sentences"]["maxItems"] = settings.max_sentences
    document["components"]["securitySchemes"] = {
        "key": {"type": "http", "scheme": "bearer", "description": "Needed if API keys are set."}
    }
    for schema in (AttributionsRequest, ImportanceRequest):
        known, _ = schemas[schema.__name__]["properties"]["label"]["anyOf"]
        known["enum"] = list(labels)
    for operations in document["paths"].values():
        for operation in operations.values():
            for parameter in operation.get("parameters", ()):
                if parameter["name"] == "label":
                    parameter["schema"]["enum"] = list(labels)
                    parameter["example"] = labels[0]
            if operation.get("security") == KEY:
                operation.setdefault("parameters", []).append(_TIMEOUT)
    app.openapi_schema = document
