"""Answers `GET /metrics` with Prometheus text or OpenMetrics."""

from functools import partial

from starlette.requests import Request
from starlette.responses import Response

from service.metrics import CONTENT_TYPES, OPEN_METRICS, PROMETHEUS_TEXT
from service.routes.openapi import shows
from service.routes.requests import answer_get, choose_form, make_router, require_access, state_of

router = make_router(tags=["health"])

_TEXT = {"schema": {"type": "string"}}
_FORMS = {
    "description": "Prometheus text, or OpenMetrics where `Accept` prefers it",
    "content": {"text/plain": _TEXT, "application/openmetrics-text": _TEXT},
}


@answer_get(router, "/metrics", summary="Metrics for Prometheus", **shows(good=_FORMS))
async def metrics(request: Request) -> Response:
    """Shows what this replica has counted since its start."""
    state = state_of(request)
    require_access(request, state.settings.metrics)
    form = choose_form(request, PROMETHEUS_TEXT, OPEN_METRICS)
    text = await state.metrics.render_once(form, partial(state.preparer.call, "metrics"))
    return Response(text, media_type=CONTENT_TYPES[form])
