"""Answers `GET /metrics` with Prometheus text or OpenMetrics."""

from fastapi import APIRouter, Request
from starlette.responses import Response

from service.api.openapi import METRICS
from service.api.requests import choose_form, require_access
from service.api.routes import answer_get
from service.api.state import state_of
from service.metrics import CONTENT_TYPES, OPEN_METRICS, PROMETHEUS_TEXT

router = APIRouter()


@answer_get(router, "/metrics", **METRICS)
async def metrics(request: Request) -> Response:
    """Shows what this replica has counted since its start."""
    state = state_of(request)
    require_access(request, state.settings.metrics)
    form = choose_form(request, PROMETHEUS_TEXT, OPEN_METRICS)
    return Response(state.metrics.render(form), media_type=CONTENT_TYPES[form])
