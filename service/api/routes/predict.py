"""Answers `POST /predict` with labels and calibrated probabilities."""

from fastapi import APIRouter, Request
from starlette.responses import Response

from service.api.compat.inputs import InputsRequest, answer_inputs, read_predict
from service.api.openapi import PREDICT
from service.api.predict import classify
from service.api.requests import admit, caller_of, unless_gone
from service.api.state import state_of
from service.errors import ServiceError
from service.formats.json import json_response, predict_answer
from service.formats.results import ResponseOptions
from service.http.middleware import deadline_of

router = APIRouter()


@router.post("/predict", **PREDICT)
async def predict(request: Request) -> Response:
    """Tells the sentiment of each sentence, in their order."""
    admit(request)
    state = state_of(request)
    body = await read_predict(request)
    if isinstance(body, InputsRequest):
        return await answer_inputs(request, body, flat=True)
    caller, deadline = caller_of(request), deadline_of(request.scope)
    classifying = classify(state, body, deadline=deadline, caller=caller)
    verdicts = await unless_gone(request, classifying)
    for item in verdicts:
        if isinstance(item, ServiceError):
            state.metrics.count_problem(item)
    telling = ResponseOptions(windows=body.truncation == "window", abstain_below=body.abstain_below)
    return json_response(predict_answer(state.engine.info, verdicts, telling))
