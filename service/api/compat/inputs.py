"""Answers bodies with `inputs`, the form of Hugging Face and of text-embeddings-inference (TEI)."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from pydantic import Field, model_validator
from starlette.requests import Request
from starlette.responses import Response

from model import Prediction
from service.api.compat.bases import Body, Member, TextOrList
from service.api.compat.errors import tell_error
from service.api.compat.texts import Loc, Texts, invalid, predict_texts, truncated_header
from service.api.input import read_body, validate
from service.api.schemas import PredictRequest
from service.api.state import state_of
from service.formats.json import json_response

Function = Literal["softmax", "sigmoid", "none"]

_FIELD = "inputs"
_MOST = 1_000_000
_PAIR = (
    "a pair of texts is given, and the model reads one text at a time: send each text as a string "
    "of the list"
)


class Parameters(Member):
    """The member `parameters` of a body with `inputs`."""

    top_k: int | None = Field(
        None, ge=1, le=_MOST, description="Most labels of each text; all if left out."
    )
    function_to_apply: Function | None = Field(
        None,
        description="`softmax` (the default): calibrated probabilities; `none`: logits; `sigmoid`: "
        "of each logit alone.",
    )
    truncation: bool | None = Field(None, description="The same as `truncate`.")


class Options(Member):
    """The member `options`, which old clients send; nothing here depends on it."""

    wait_for_model: bool | None = None
    use_cache: bool | None = None
    use_gpu: bool | None = None


class InputsRequest(Body):
    """A body with `inputs`."""

    inputs: TextOrList = Field(description="A text, or a list of texts; TEI's `[[text], …]` too.")
    parameters: Parameters | None = None
    truncate: bool | None = Field(
        None, description="Whether a text that is too long is cut (the default) or refused."
    )
    truncation_direction: Literal["Left", "Right", "left", "right"] = Field(
        "Right", description="The end that is cut off."
    )
    raw_scores: bool = Field(False, description="Whether scores are logits.")
    options: Options | None = None

    @model_validator(mode="after")
    def _agree(self) -> "InputsRequest":
        wanted = self.parameters or Parameters()
        if self.raw_scores and wanted.function_to_apply not in (None, "none"):
            raise ValueError("raw_scores and function_to_apply contradict each other: send one")
        if None not in (self.truncate, wanted.truncation) and self.truncate != wanted.truncation:
            raise ValueError("truncate and parameters.truncation differ: send one")
        return self

    @property
    def function(self) -> Function:
        """What makes scores of logits."""
        if self.raw_scores:
            return "none"
        return (self.parameters or Parameters()).function_to_apply or "softmax"

    @property
    def cuts(self) -> bool:
        """Whether a text that is too long is cut."""
        return False not in (self.truncate, (self.parameters or Parameters()).truncation)


@dataclass(frozen=True, slots=True)
class Score:
    """A label with its score."""

    label: str
    score: float


async def read_predict(request: Request) -> PredictRequest | InputsRequest:
    """Reads a body of `POST /predict`, in its own form or in that of TEI.

    Raises:
        ServiceError: as `read_body` does.
    """
    state = state_of(request)

    def check(value: object) -> PredictRequest | InputsRequest:
        schema: type[PredictRequest | InputsRequest] = PredictRequest
        other = isinstance(value, dict) and _FIELD in value and "sentences" not in value
        if other and "huggingface" in state.settings.compat:
            tell_error(request)
            schema = InputsRequest
        return validate(schema, value, place="body", context=state.limits)

    return await read_body(request, check, max_bytes=state.settings.max_body_bytes)


async def answer_inputs(request: Request, body: InputsRequest, *, flat: bool) -> Response:
    """Classifies the texts of a body with `inputs`, and lists scores, the best first.

    Args:
        request: was admitted.
        body: that it has.
        flat: whether the answer for one text that stands in no list is its scores alone, as TEI
            has it, and not a list of lists with one entry.

    Raises:
        InvalidRequestError: `inputs` is something else than texts.
        ServiceError: as `predict_texts` does.
    """
    predictions = await predict_texts(request, texts_of(body))
    scores = [_scores(each, body) for each in predictions]
    is_one = flat and isinstance(body.inputs, str)
    headers = truncated_header(predictions)
    return json_response(scores[0] if is_one else scores, headers)


def texts_of(body: InputsRequest) -> Texts:
    """The texts of a body with `inputs`.

    Raises:
        InvalidRequestError: `inputs` is something else.
    """
    given = body.inputs
    items: list[object]
    nested = isinstance(given, list) and bool(given) and all(isinstance(e, list) for e in given)
    if isinstance(given, list):
        items = [
            _alone(each, (_FIELD, place)) if nested else each for place, each in enumerate(given)
        ]
    elif isinstance(given, str):
        items = [given]
    else:
        raise invalid((_FIELD,), "must be a text or a list of texts")

    def locate(index: int) -> Loc:
        if isinstance(given, str):
            return (_FIELD,)
        return (_FIELD, index, 0) if nested else (_FIELD, index)

    end: Literal["left", "right"] = (
        "left" if body.truncation_direction.lower() == "left" else "right"
    )
    return Texts(
        items, (_FIELD,), locate, end if body.cuts else "error", cut_by="set truncate to true"
    )


def _alone(texts: list[object], loc: Loc) -> object:
    if len(texts) == 2:
        raise invalid(loc, _PAIR)
    if len(texts) != 1:
        raise invalid(loc, "must be a list of one text")
    return texts[0]


def _scores(prediction: Prediction, body: InputsRequest) -> list[Score]:
    values: Sequence[float] = tuple(prediction.probabilities.values())
    if body.function != "softmax":
        values = prediction.logits
    if body.function == "sigmoid":
        values = [_sigmoid(value) for value in values]
    pairs = zip(prediction.probabilities, values, strict=True)
    scores = sorted((Score(*pair) for pair in pairs), key=lambda each: -each.score)
    return scores[: (body.parameters or Parameters()).top_k]


def _sigmoid(logit: float) -> float:
    # Of a negative number only: the power of a large positive one would overflow.
    power = math.exp(-abs(logit))
    return 1 / (1 + power) if logit >= 0 else power / (1 + power)
