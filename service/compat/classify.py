"""Answers clients of vLLM, SGLang and Dynamo: `/classify`, `/v1/classify`, `/v1/models`."""

import time
from typing import Annotated, Any, Literal

from fastapi import Body
from pydantic import BaseModel, Field, ValidationInfo, field_validator, model_validator
from starlette.requests import Request
from starlette.responses import Response

from model import Prediction
from model.reading import ReadingOptions
from service.compat.base import CUT_HEADER, TAG, OtherBody, TextOrList, answer_texts, texts_in
from service.errors import NotFoundError
from service.http.middleware import id_of
from service.routes.openapi import computes, describes
from service.routes.requests import (
    Context,
    answer_get,
    answers,
    from_body,
    json_response,
    make_router,
    require_key,
    state_of,
)

router = make_router(tags=[TAG])

_FIELD = "input"
_MOST = 1_000_000_000
_TOKENS = "token ids are given, and only text is taken: send strings"
_EXAMPLES: dict[str, Any] = {
    "one": {"summary": "One text", "value": {"input": "A warm, funny film."}},
    "several": {
        "summary": "The logits of two texts",
        "value": {"input": ["A warm, funny film.", "A waste of time."], "use_activation": False},
    },
}


class ClassifyRequest(OtherBody):
    """The body of `POST /classify`."""

    model: str | None = Field(None, description="The name of the served model, if it is named.")
    input: TextOrList = Field(description="A text or a list of texts.")
    truncate_prompt_tokens: int | None = Field(
        None,
        le=_MOST,
        description="-1, or the most tokens that the model reads; no other number is taken.",
    )
    truncation_side: Literal["left", "right"] | None = Field(
        None, description="The end that is cut off; `right` if left out."
    )
    use_activation: bool | None = Field(
        None, description="False: `probs` are logits; else calibrated probabilities."
    )
    activation: bool | None = Field(None, description="The older name of `use_activation`.")
    softmax: bool | None = Field(None, description="The oldest name of `use_activation`.")
    add_special_tokens: bool | None = Field(
        None, description="False is refused: the model reads no text without them."
    )
    user: str | None = Field(None, description="Ignored: clients are distinguished by their keys.")
    priority: int | None = Field(None, description="Ignored: all clients have the same share.")

    @field_validator("input")
    @classmethod
    def _no_token_ids(cls, given: object) -> object:
        if isinstance(given, list) and any(isinstance(each, int | list) for each in given):
            raise ValueError(_TOKENS)
        return given

    @field_validator("truncate_prompt_tokens")
    @classmethod
    def _only_the_model_decides(cls, count: int | None, info: ValidationInfo) -> int | None:
        most = (info.context or {}).get("max_length")
        if count is not None and count != -1 and most is not None and count < most:
            raise ValueError(
                f"texts are cut at the {most} tokens that the model reads, and nowhere else: send "
                f"-1, {most} or nothing, and cut the text yourself if it shall be shorter"
            )
        return count

    @field_validator("add_special_tokens")
    @classmethod
    def _not_without(cls, add: bool | None) -> bool | None:
        if add is False:
            raise ValueError("the model reads no text without its special tokens: leave this out")
        return add

    @model_validator(mode="after")
    def _agree(self) -> "ClassifyRequest":
        if {True, False} <= self._activations:
            raise ValueError("use_activation, activation and softmax differ: send one")
        return self

    @property
    def wants_logits(self) -> bool:
        """Whether `probs` are logits."""
        return False in self._activations

    @property
    def _activations(self) -> set[bool | None]:
        return {self.use_activation, self.activation, self.softmax}


class ClassifyEntry(BaseModel):
    """The answer for one text, as vLLM has it."""

    index: int
    label: str
    probs: list[float]
    num_classes: int


class Usage(BaseModel):
    """The tokens of a request."""

    prompt_tokens: int
    total_tokens: int
    completion_tokens: int
    prompt_tokens_details: None


class ClassifyAnswer(BaseModel):
    """The answer of `POST /classify`."""

    id: str
    object: Literal["list"]
    created: int
    model: str
    data: list[ClassifyEntry]
    usage: Usage


_CLASSIFY = computes("body", ClassifyAnswer, NotFoundError, good=CUT_HEADER)


@router.post(
    "/classify",
    name="classify",
    summary="Classification, for clients of vLLM, SGLang and Dynamo",
    **_CLASSIFY,
)
@router.post("/v1/classify", name="classify_v1", summary="The same, below /v1", **_CLASSIFY)
@answers(from_body(ClassifyRequest))
async def classify_input(
    context: Context, body: Annotated[ClassifyRequest, Body(openapi_examples=_EXAMPLES)]
) -> Response:
    """Returns the most probable label of each text and the probabilities of all."""
    name = context.state.engine.info.name
    if body.model not in (None, name):
        # The other name is text of the client's own, so it is not repeated.
        raise NotFoundError(
            f"model: no model of that name is served: name {name}, or leave model out."
        )

    def write(predictions: list[Prediction]) -> dict[str, object]:
        count, wants_logits = sum(each.token_count for each in predictions), body.wants_logits
        return {
            "id": f"classify-{id_of(context.scope)}",
            "object": "list",
            "created": int(time.time()),
            "model": name,
            "data": [
                {
                    "index": index,
                    "label": each.label,
                    "probs": list(each.logits if wants_logits else each.probabilities.values()),
                    "num_classes": len(each.probabilities),
                }
                for index, each in enumerate(predictions)
            ],
            "usage": {
                "prompt_tokens": count,
                "total_tokens": count,
                "completion_tokens": 0,
                "prompt_tokens_details": None,
            },
        }

    texts = texts_in(body.input, (_FIELD,), ReadingOptions(body.truncation_side or "right"))
    return await answer_texts(context, texts, write)


@answer_get(
    router, "/v1/models", summary="The models, for clients of OpenAI", **describes(dict[str, Any])
)
async def models(request: Request) -> Response:
    """Lists the served model, as OpenAI's clients read it."""
    require_key(request)
    model = state_of(request).engine.info
    entry = {
        "id": model.name,
        "object": "model",
        "created": int(time.time()),
        "owned_by": "headlight",
        "root": model.name,
        "parent": None,
        "max_model_len": model.max_length,
    }
    return json_response({"object": "list", "data": [entry]})
