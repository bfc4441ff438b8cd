"""`GET /metrics`: Prometheus text."""

from fastapi import APIRouter, Request
from starlette.responses import Response

from service.metrics import CONTENT_TYPE
from service.openapi import METRICS
from service.requests import choose_form, state_of

router = APIRouter()


@router.get("/metrics", **METRICS)
async def metrics(request: Request) -> Response:
    """Shows what this replica has counted since its start."""
    choose_form(request, "text/plain")
    return Response(state_of(request).metrics.render(), media_type=CONTENT_TYPE)
