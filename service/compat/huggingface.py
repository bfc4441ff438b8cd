"""Answers clients of Hugging Face and of text-embeddings-inference (TEI): bodies with `inputs`."""

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Annotated, Any, Literal

from fastapi import Body
from pydantic import BaseModel, BeforeValidator, Field, model_validator
from starlette.requests import Request
from starlette.responses import Response

from model import Prediction
from model.reading import ReadingOptions
from service.compat.base import (
    CUT_HEADER,
    TAG,
    OtherBody,
    TextOrList,
    answer_texts,
    texts_in,
    wrong,
)
from service.errors import Loc
from service.routes import predict
from service.routes.health import ready
from service.routes.openapi import computes, describes, probes
from service.routes.request_schemas import PredictRequest
from service.routes.requests import (
    Context,
    RequestContext,
    answer_get,
    answers,
    from_body,
    json_response,
    make_router,
    require_key,
    state_of,
)
from service.routes.schemas import HealthAnswer, PredictAnswer
from service.routes.texts import Texts

router = make_router(tags=[TAG])
#: stands in place of the service's own where bodies with `inputs` are answered
predict_router = make_router(tags=predict.router.tags)

Function = Literal["softmax", "sigmoid", "none"]

_FIELD = "inputs"
_MOST = 1_000_000
_PAIR = (
    "a pair of texts is given, and the model reads one text at a time: send each text as a string "
    "of the list"
)


def _capitalized(direction: object) -> object:
    # One name of each in the schema: generated clients cannot have members that differ in case.
    return direction.capitalize() if isinstance(direction, str) else direction


class Parameters(OtherBody):
    """The member `parameters` of a body with `inputs`."""

    top_k: int | None = Field(
        None, ge=1, le=_MOST, description="Most labels of each text; all if left out."
    )
    function_to_apply: Function | None = Field(
        None,
        description="`softmax` (the default): calibrated probabilities; `none`: logits; `sigmoid`: "
        "of each logit by itself.",
    )
    return_all_scores: bool | None = Field(
        None,
        description="Of older pipelines, if `top_k` is left out: true lists all labels in the "
        "model's order, false only the best.",
    )
    truncation: bool | Literal["longest_first", "only_first", "do_not_truncate"] | None = Field(
        None, description="The same as `truncate`; all names but `do_not_truncate` mean true."
    )
    max_length: int | None = Field(
        None,
        ge=1,
        le=_MOST,
        description="Texts that are cut are cut here, if the model reads more.",
    )
    padding: bool | Literal["longest", "max_length", "do_not_pad"] | None = Field(
        None, description="Ignored: no answer depends on it."
    )

    @property
    def truncates(self) -> bool | None:
        """Whether a text that is too long is cut; None if this says nothing."""
        if isinstance(self.truncation, str):
            return self.truncation != "do_not_truncate"
        return self.truncation


class InputsRequest(OtherBody):
    """A body with `inputs`."""

    inputs: TextOrList = Field(description="A text, or a list of texts; TEI's `[[text], …]` too.")
    parameters: Parameters | None = None
    truncate: bool | None = Field(
        None, description="Whether a text that is too long is cut (the default) or refused."
    )
    truncation_direction: Annotated[Literal["Left", "Right"], BeforeValidator(_capitalized)] = (
        Field("Right", description="The end that is cut off; `left` and `right` too.")
    )
    raw_scores: bool = Field(False, description="Whether scores are logits.")
    options: object = Field(None, description="Ignored: old clients send it.")

    @model_validator(mode="after")
    def _agree(self) -> "InputsRequest":
        wanted = self.wanted
        if self.raw_scores and wanted.function_to_apply not in (None, "none"):
            raise ValueError("raw_scores and function_to_apply contradict each other: send one")
        if None not in (self.truncate, wanted.truncates) and self.truncate != wanted.truncates:
            raise ValueError("truncate and parameters.truncation differ: send one")
        return self

    @property
    def wanted(self) -> Parameters:
        """The parameters, with their defaults."""
        return self.parameters or Parameters()

    @property
    def function(self) -> Function:
        """What makes scores of logits."""
        if self.raw_scores:
            return "none"
        return self.wanted.function_to_apply or "softmax"

    @property
    def cuts(self) -> bool:
        """Whether a text that is too long is cut."""
        return False not in (self.truncate, self.wanted.truncates)


class LabelScore(BaseModel):
    """A label of a text, with its score."""

    label: str
    score: float


_TEXT = "A warm, funny film."
_EXAMPLES: dict[str, Any] = {
    "one": {"summary": "One text", "value": {"inputs": _TEXT, "parameters": {}}},
    "several": {
        "summary": "The best label of each of two texts",
        "value": {"inputs": [_TEXT, "A waste of time."], "parameters": {"top_k": 1}},
    },
}
_EITHER: dict[str, Any] = {
    **predict.EXAMPLES,
    "inputs": {"summary": "In the form of TEI, and answered in it", "value": {"inputs": _TEXT}},
}
_SUMMARY = "Sentiment, for clients of Hugging Face"
_LISTS = computes("body", list[list[LabelScore]], good=CUT_HEADER)


@router.post("/", name="inputs_of_root", summary=f"{_SUMMARY}, at the root", **_LISTS)
@router.post("/hf", name="inputs", summary=_SUMMARY, **_LISTS)
@answers(from_body(InputsRequest))
async def classify_inputs(
    context: Context, body: Annotated[InputsRequest, Body(openapi_examples=_EXAMPLES)]
) -> Response:
    """Lists the labels of each text with their scores, as Hugging Face's clients read them."""
    return await _answer(context, body, flat=False)


@predict_router.post(
    "/predict",
    **predict.NAMES,
    **computes("body", PredictAnswer | list[LabelScore] | list[list[LabelScore]]),
)
@answers(
    from_body(PredictRequest, sentences=PredictRequest, inputs=InputsRequest),
    others={PredictRequest: predict.answer_sentences},
)
async def predict_either(
    context: Context,
    body: Annotated[PredictRequest | InputsRequest, Body(openapi_examples=_EITHER)],
) -> Response:
    """Returns the sentiment of each sentence, in their order."""
    assert isinstance(body, InputsRequest)  # noqa: S101 - the other kind is answered before
    return await _answer(context, body, flat=True)


answer_get(
    router,
    "/health",
    name="health",
    summary="Health, as TEI and vLLM answer",
    **probes(HealthAnswer),
)(ready)


@answer_get(router, "/info", summary="The model, as TEI describes it", **describes(dict[str, Any]))
async def info(request: Request) -> Response:
    """Describes the model and its limits, as TEI does."""
    require_key(request)
    state = state_of(request)
    model = state.engine.info
    names = {str(index): label for index, label in enumerate(model.labels)}
    ids = {label: index for index, label in enumerate(model.labels)}
    content = {
        "model_id": model.name,
        "model_sha": model.version,
        "model_dtype": model.dtype,
        "model_type": {"classifier": {"id2label": names, "label2id": ids}},
        "max_input_length": model.max_length,
        "max_batch_tokens": state.engine.max_batch_tokens,
        "max_client_batch_size": state.settings.max_sentences,
        "auto_truncate": True,
        "version": request.app.version,
    }
    return json_response(content)


async def _answer(context: RequestContext, body: InputsRequest, *, flat: bool) -> Response:
    """Lists scores, the best first; `flat` has those of one text outside a list, as TEI does."""

    def write(predictions: list[Prediction]) -> object:
        scores = [_scores(each, body) for each in predictions]
        return scores[0] if flat and isinstance(body.inputs, str) else scores

    return await answer_texts(context, texts_of(body), write)


def texts_of(body: InputsRequest) -> Texts:
    """Returns the texts of a body; raises InvalidRequestError if `inputs` is something else."""
    end: Literal["left", "right"] = "left" if body.truncation_direction == "Left" else "right"
    options = (
        ReadingOptions(end, max_length=body.wanted.max_length)
        if body.cuts
        else ReadingOptions("error")
    )
    texts = texts_in(body.inputs, (_FIELD,), options, cut_by="set truncate to true")
    if not texts.items or not all(isinstance(each, list) for each in texts.items):
        return texts
    items = [_only(each, (_FIELD, index)) for index, each in enumerate(texts.items)]
    return replace(texts, items=items, below=lambda index: (index, 0))


def _only(texts: object, loc: Loc) -> object:
    assert isinstance(texts, list)  # noqa: S101 - else `inputs` is not nested
    if len(texts) == 2:
        raise wrong(loc, _PAIR)
    if len(texts) != 1:
        raise wrong(loc, "must be a list of one text")
    return texts[0]


def _scores(prediction: Prediction, body: InputsRequest) -> list[dict[str, object]]:
    values: Sequence[float] = tuple(prediction.probabilities.values())
    if body.function != "softmax":
        values = prediction.logits
    if body.function == "sigmoid":
        values = [_sigmoid(value) for value in values]
    pairs = zip(prediction.probabilities, values, strict=True)
    most, every = body.wanted.top_k, body.wanted.return_all_scores
    if most is None and every:  # callers of older pipelines know a class by its place
        chosen = list(pairs)
    else:
        most = 1 if most is None and every is False else most
        chosen = sorted(pairs, key=lambda pair: -pair[1])[:most]
    return [{"label": label, "score": score} for label, score in chosen]


def _sigmoid(logit: float) -> float:
    # Of a negative number only: the power of a large positive one would overflow.
    power = math.exp(-abs(logit))
    return 1 / (1 + power) if logit >= 0 else power / (1 + power)
