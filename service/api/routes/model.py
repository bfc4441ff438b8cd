"""Answers `GET /model` with a description of the served model."""

from dataclasses import asdict

from fastapi import APIRouter, Request
from starlette.responses import Response

from model.checkpoint.thresholds import Thresholds
from service.api.limits import describe_limits
from service.api.openapi import MODEL
from service.api.requests import choose_form, require_api_key
from service.api.routes import answer_get
from service.api.state import state_of
from service.formats.json import JSON, json_response

router = APIRouter()


@answer_get(router, "/model", **MODEL)
async def model(request: Request) -> Response:
    """Says which model answers, its sizes, its accuracy in training, and what it refuses."""
    require_api_key(request)
    choose_form(request, JSON)
    state = state_of(request)
    info = state.engine.info
    metrics = [metric.model_dump() for metric in info.metrics]
    told = {"metrics": metrics, "thresholds": _describe(info.thresholds)}
    return json_response({**asdict(info), **told, "limits": describe_limits(state)})


def _describe(thresholds: Thresholds | None) -> dict[str, object] | None:
    if thresholds is None:
        return None
    return {
        "sets": thresholds.sets,
        "rows": thresholds.rows,
        "by_threshold": thresholds.reports(),
    }
