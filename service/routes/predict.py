"""Answers `POST /predict` with labels and calibrated probabilities."""

from typing import Annotated, Any

from fastapi import Body
from starlette.responses import Response

from model import Prediction
from model.reading import ReadingOptions
from model.types import TextResult
from service.errors import ServiceError
from service.routes.openapi import computes
from service.routes.request_schemas import EXAMPLE, PredictRequest
from service.routes.requests import (
    Context,
    RequestContext,
    answers,
    from_body,
    json_response,
    make_router,
)
from service.routes.schemas import PredictAnswer
from service.routes.texts import Texts, choice_of, classify, heads_off, is_english

router = make_router(tags=["sentiment"])

EXAMPLES: dict[str, Any] = {
    "one": {"summary": "One sentence", "value": {"sentences": [EXAMPLE]}},
    "several": {
        "summary": "Several, with an error only for the blank one",
        "value": {
            "sentences": ["What a wonderful film.", " ", "What a waste of time."],
            "on_error": "item",
        },
    },
    "sentences": {
        "summary": "A text as a whole, and each of its sentences",
        "value": {"sentences": ["The cast is superb. The plot drags!"], "granularity": "sentence"},
    },
    "whole": {
        "summary": "A long text as a whole, not cut",
        "value": {"sentences": [EXAMPLE], "truncation": "window"},
    },
    "intervened": {
        "summary": "Without a head and a token: what does the answer depend on?",
        "value": {"sentences": [EXAMPLE], "head_mask": [{"layer": 0, "head": 1}], "omit": [3]},
    },
    "pair": {
        "summary": "A choice between two of the model's labels",
        "value": {"sentences": [EXAMPLE], "labels": ["negative", "positive"]},
    },
    "unsure": {
        "summary": "No label where the model is less sure than this",
        "value": {"sentences": [EXAMPLE], "abstain_below": 0.9},
    },
}


#: what the route is named in `/openapi.json`
NAMES: dict[str, Any] = {"name": "predict", "summary": "Sentiment of sentences"}


@router.post("/predict", **NAMES, **computes("body", PredictAnswer))
@answers(from_body(PredictRequest))
async def predict(
    context: Context, body: Annotated[PredictRequest, Body(openapi_examples=EXAMPLES)]
) -> Response:
    """Returns the sentiment of each sentence, in their order."""
    return await answer_sentences(context, body)


async def answer_sentences(context: RequestContext, body: PredictRequest) -> Response:
    """Answers a checked body of `POST /predict`."""
    state = context.state
    options = ReadingOptions(
        body.truncation,
        by_sentence=body.granularity == "sentence",
        max_windows=state.settings.max_windows,
        heads=heads_off(body),
        omit=body.omit or (),
        is_english=is_english(state),
    )
    texts = Texts(body.sentences, options)
    results = await classify(context, texts, by_item=body.on_error == "item")
    if (choice := choice_of(context, body.labels)) is not None:
        results = [each.among(choice) if isinstance(each, TextResult) else each for each in results]
    for result in results:
        if isinstance(result, ServiceError):
            state.metrics.count_problem(result)
    info = state.engine.info
    return json_response(
        {
            "model": {"name": info.name, "version": info.version},
            "predictions": [_answer_of(result, body) for result in results],
        }
    )


def _answer_of(result: TextResult | ServiceError, body: PredictRequest) -> object:
    """Returns what is answered for one text: its prediction, or its error."""
    if isinstance(result, ServiceError):
        return {"error": result.problem()}
    members = _members(result.prediction, body)
    if body.truncation == "window":
        members["windows"] = result.prediction.windows
    if result.sentences is not None:
        members["sentences"] = [
            {"start": each.span.start, "end": each.span.end, **_members(each.prediction, body)}
            for each in result.sentences
        ]
    return members


def _members(prediction: Prediction, body: PredictRequest) -> dict[str, object]:
    return prediction.labelled_from(body.abstain_below).members()
