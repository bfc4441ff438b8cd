"""Answers `POST /predict` with labels and calibrated probabilities."""

from typing import Annotated, Any

from fastapi import Body
from starlette.responses import Response

from model.reading import ReadingOptions, TextResult
from service.api.compat.base import mark_foreign
from service.api.compat.huggingface import InputsRequest, LabelScore, answer_inputs
from service.api.input import validate
from service.api.openapi import computes
from service.api.request_schemas import EXAMPLE, PredictRequest
from service.api.requests import Context, RequestContext, answers, make_router
from service.api.schemas import PredictAnswer
from service.api.texts import Texts, choice_of, classify, heads_off, is_english
from service.errors import ServiceError
from service.formats.json import ResponseOptions, json_response, predict_answer

router = make_router(tags=["sentiment"])

_EXAMPLES: dict[str, Any] = {
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
        "value": {
            "sentences": ["The cast is superb. The plot drags!"],
            "granularity": "sentence",
        },
    },
    "whole": {
        "summary": "A long text as a whole, not cut",
        "value": {"sentences": [EXAMPLE], "truncation": "window"},
    },
    "intervened": {
        "summary": "Without a head and a token: what does the answer depend on?",
        "value": {
            "sentences": [EXAMPLE],
            "head_mask": [{"layer": 0, "head": 1}],
            "omit": [3],
        },
    },
    "pair": {
        "summary": "A choice between two of the model's labels",
        "value": {"sentences": [EXAMPLE], "labels": ["negative", "positive"]},
    },
    "inputs": {
        "summary": "In the form of TEI, and answered in it",
        "value": {"inputs": "A warm, funny film."},
    },
    "unsure": {
        "summary": "No label where the model is less sure than this",
        "value": {"sentences": [EXAMPLE], "abstain_below": 0.9},
    },
}


async def _read(context: RequestContext) -> PredictRequest | InputsRequest:
    """Reads the service's own body, or one of text-embeddings-inference if that is served."""
    state = context.state

    def check(value: object) -> PredictRequest | InputsRequest:
        schema: type[PredictRequest | InputsRequest] = PredictRequest
        if (
            isinstance(value, dict)
            and "inputs" in value
            and "sentences" not in value
            and "huggingface" in state.settings.compat
        ):
            mark_foreign(context.scope)
            schema = InputsRequest
        return validate(schema, value, source="body", context=state.limits)

    return await context.read_json(check)


@router.post(
    "/predict",
    summary="Sentiment of sentences",
    **computes("body", PredictAnswer | list[LabelScore] | list[list[LabelScore]]),
)
@answers(_read)
async def predict(
    context: Context,
    body: Annotated[PredictRequest | InputsRequest, Body(openapi_examples=_EXAMPLES)],
) -> Response:
    """Returns the sentiment of each sentence, in their order."""
    if isinstance(body, InputsRequest):
        return await answer_inputs(context, body, flat=True)
    state = context.state
    options = ReadingOptions(
        body.truncation,
        by_sentence=body.granularity == "sentence",
        max_windows=state.settings.max_windows,
        max_sentences=state.settings.max_item_sentences,
        heads=heads_off(body),
        omit=body.omit or (),
        is_english=is_english(state),
    )
    texts = Texts(body.sentences, options)
    results = await classify(context, texts, by_item=body.on_error == "item")
    choice = choice_of(context, body.labels)
    if choice is not None:
        results = [each.among(choice) if isinstance(each, TextResult) else each for each in results]
    for result in results:
        if isinstance(result, ServiceError):
            state.metrics.count_problem(result)
    shown = ResponseOptions(windows=body.truncation == "window", abstain_below=body.abstain_below)
    return json_response(predict_answer(state.engine.info, results, shown))


def forget_inputs(document: dict[str, Any]) -> None:
    """Removes what `/openapi.json` says of bodies with `inputs`, where they are not served."""
    operation = document["paths"]["/predict"]["post"]
    sent = operation["requestBody"]["content"]["application/json"]
    del sent["examples"]["inputs"]
    for media in (sent, operation["responses"]["200"]["content"]["application/json"]):
        media["schema"] = media["schema"]["anyOf"][0]
