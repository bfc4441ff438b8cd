"""`GET /model`: what is served."""

from dataclasses import asdict

from fastapi import APIRouter, Depends
from starlette.responses import Response

from service.answers import JSON, json_response
from service.dependencies import StateDep, offers, require_api_key
from service.openapi import MODEL

router = APIRouter()


@router.get("/model", dependencies=[Depends(require_api_key), Depends(offers(JSON))], **MODEL)
async def model(state: StateDep) -> Response:
    """Says which model answers, its sizes, and how accurate it was when it was trained."""
    info = state.engine.info
    metrics = [metric.model_dump() for metric in info.metrics]
    return json_response({**asdict(info), "metrics": metrics})
