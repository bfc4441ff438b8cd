"""`GET /metrics`: Prometheus text."""

from fastapi import APIRouter, Depends
from starlette.responses import Response

from service.dependencies import StateDep, offers
from service.metrics import CONTENT_TYPE
from service.openapi import METRICS

router = APIRouter()


@router.get("/metrics", dependencies=[Depends(offers("text/plain"))], **METRICS)
async def metrics(state: StateDep) -> Response:
    """Shows what this replica has counted since its start."""
    return Response(state.metrics.render(), media_type=CONTENT_TYPE)
