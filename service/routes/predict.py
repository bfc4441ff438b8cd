"""`POST /predict`: labels and calibrated probabilities."""

from fastapi import APIRouter, Depends, Request
from starlette.responses import Response

from service.answers import JSON, json_response, predict_answer
from service.classify import classify
from service.dependencies import PredictBody, StateDep, offers, require_api_key, unless_gone
from service.errors import ServiceError
from service.openapi import PREDICT

router = APIRouter()


@router.post("/predict", dependencies=[Depends(require_api_key), Depends(offers(JSON))], **PREDICT)
async def predict(request: Request, body: PredictBody, state: StateDep) -> Response:
    """Tells the sentiment of each sentence, in their order."""
    predictions = await unless_gone(request, classify(state.engine, body))
    for item in predictions:
        if isinstance(item, ServiceError):
            state.metrics.problems.labels(item.type).inc()
    return json_response(predict_answer(state.engine.info, predictions))
