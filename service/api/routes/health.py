"""Answers `GET /health/live` and `/health/ready` for orchestrators and load balancers.

Both ignore `Accept`: an odd header of a prober must not take a replica out.
"""

from fastapi import APIRouter, Request
from starlette.responses import Response

from service.api.openapi import LIVE, READY
from service.api.routes import answer_get
from service.api.state import state_of
from service.errors import DrainingError, NotReadyError
from service.formats.json import json_response

router = APIRouter()


@answer_get(router, "/health/live", **LIVE)
async def live(request: Request) -> Response:
    """Says that the process can answer at all, and that no forward pass hangs."""
    stuck = state_of(request).engine.stuck
    if stuck is not None:
        raise NotReadyError(stuck, refusal=None, retry_after=1)
    return json_response({"status": "live"})


@answer_get(router, "/health/ready", **READY)
async def ready(request: Request) -> Response:
    """Says whether requests should be sent here."""
    state = state_of(request)
    if state.lifecycle.draining:
        raise DrainingError("This replica is shutting down.", refusal=None, retry_after=1)
    if state.engine.fault is not None:
        raise NotReadyError(state.engine.fault, refusal=None, retry_after=1)
    return json_response({"status": "ready"})
