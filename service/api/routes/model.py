"""Answers `GET /model` with a description of the served model."""

from dataclasses import asdict

from fastapi import APIRouter, Request
from starlette.responses import Response

from service.api.openapi import MODEL
from service.api.requests import choose_form, require_api_key
from service.api.routes import answer_get
from service.api.state import state_of
from service.formats.json import JSON, json_response

router = APIRouter()


@answer_get(router, "/model", **MODEL)
async def model(request: Request) -> Response:
    """Says which model answers, its sizes, and how accurate it was when it was trained."""
    require_api_key(request)
    choose_form(request, JSON)
    info = state_of(request).engine.info
    metrics = [metric.model_dump() for metric in info.metrics]
    return json_response({**asdict(info), "metrics": metrics})
