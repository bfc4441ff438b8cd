"""Answers `/health/live`, `/health/ready` and `/metrics` for those who run the service.

Health ignores `Accept`: an odd header of a probe must not take a replica out.
"""

from functools import partial

from starlette.requests import Request
from starlette.responses import Response

from service.errors import DrainingError, NotReadyError
from service.metrics import CONTENT_TYPES, OPEN_METRICS, PROMETHEUS_TEXT
from service.routes.openapi import probes, shows
from service.routes.requests import (
    answer_get,
    choose_form,
    json_response,
    make_router,
    require_access,
    state_of,
)
from service.routes.schemas import HealthAnswer

router = make_router(tags=["health"])

_TEXT = {"schema": {"type": "string"}}
_METRICS = {
    "description": "Prometheus text, or OpenMetrics where `Accept` prefers it",
    "content": {"text/plain": _TEXT, "application/openmetrics-text": _TEXT},
}


@answer_get(router, "/health/live", summary="Whether the process is alive", **probes(HealthAnswer))
async def live(request: Request) -> Response:
    """Reports that the process answers, and that no forward pass hangs."""
    check_live(request)
    return json_response({"status": "live"})


@answer_get(
    router, "/health/ready", summary="Whether requests should come here", **probes(HealthAnswer)
)
async def ready(request: Request) -> Response:
    """Reports whether requests should be sent here."""
    check_ready(request)
    return json_response({"status": "ready"})


def check_live(request: Request) -> None:
    """Raises NotReadyError if the process has to be restarted."""
    stuck = state_of(request).engine.stuck
    if stuck is not None:
        raise NotReadyError(stuck, refusal=None, retry_after=1)


def check_ready(request: Request) -> None:
    """Raises DrainingError or NotReadyError if requests should go to another replica."""
    state = state_of(request)
    if state.lifecycle.draining:
        raise DrainingError("This replica is shutting down.", refusal=None, retry_after=1)
    if state.engine.not_ready is not None:
        raise NotReadyError(state.engine.not_ready, refusal=None, retry_after=1)


@answer_get(router, "/metrics", summary="Metrics for Prometheus", **shows(good=_METRICS))
async def metrics(request: Request) -> Response:
    """Shows what this replica has counted since its start."""
    state = state_of(request)
    require_access(request, state.settings.metrics)
    form = choose_form(request, PROMETHEUS_TEXT, OPEN_METRICS)
    text = await state.metrics.render_once(form, partial(state.preparer.call, "metrics"))
    return Response(text, media_type=CONTENT_TYPES[form])
