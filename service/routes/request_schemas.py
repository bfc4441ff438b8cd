"""Defines the shapes of requests, which check them."""

from typing import Annotated, Literal

from pydantic import (
    AfterValidator,
    BeforeValidator,
    Field,
    ValidationInfo,
    WithJsonSchema,
    field_validator,
)

from model.explain.attribution import MOST_STEPS, STEPS, Method
from model.explain.units import UnitLevel
from model.explain.views import LEAST_SIDE, MOST_SIDE, Level
from model.network.labels import choice_error
from model.tokenization.tokenizer import check_text
from model.types import Reading, Reduce, Truncation
from service.routes.bodies import RequestBody, counting

FormName = Literal["json", "npz", "svg"]
# Most numbers in `layer` or `head`.
MOST_NUMBERS = 1000
_INTEGRAL = "integrated_gradients"
EXAMPLE = "The plot drags, but the cast is superb."


def _check_numbers(numbers: list[int] | None, info: ValidationInfo) -> list[int] | None:
    count = (info.context or {}).get(f"{info.field_name}s")
    if numbers is not None and count is not None:
        for number in numbers:
            if not 0 <= number < count:
                raise ValueError(f"the model has {info.field_name}s 0 to {count - 1}")
    return numbers


def _check_number(number: int, info: ValidationInfo) -> int:
    _check_numbers([number], info)
    return number


def _check_label(label: str | None, info: ValidationInfo) -> str | None:
    labels = (info.context or {}).get("labels")
    if label is not None and labels is not None and label not in labels:
        raise ValueError(f"the model has the labels {', '.join(labels)}")
    return label


def _check_labels(labels: list[str] | None, info: ValidationInfo) -> list[str] | None:
    known = (info.context or {}).get("labels")
    if labels is None or known is None:
        return labels
    if len(set(labels)) < max(2, len(labels)) or not set(labels) <= set(known):
        raise ValueError(choice_error(known))
    label = info.data.get("label")
    if label is not None and label not in labels:
        raise ValueError("`label` must be one of `labels`: add it, or leave one of the two out")
    return labels


_Counted = BeforeValidator(counting("sentences"))
Sentence = Annotated[
    str, AfterValidator(check_text), Field(description="The text, not blank.", examples=[EXAMPLE])
]
_Indices = Annotated[
    list[Annotated[int, WithJsonSchema({"type": "integer", "minimum": 0})]],
    Field(min_length=1, max_length=MOST_NUMBERS, fail_fast=True),
]
Numbers = Annotated[_Indices | None, Field(examples=[[0]]), AfterValidator(_check_numbers)]
_Number = Annotated[
    int,
    # The example stands here, because FastAPI leaves out that of the field of a query.
    WithJsonSchema({"type": "integer", "minimum": 0, "examples": [0]}),
    AfterValidator(_check_number),
]
Cut = Annotated[
    Truncation,
    Field(description="Which end of a text that is too long is cut off; `error` refuses it."),
]
CutOrWhole = Annotated[
    Reading,
    Field(
        description="Which end of a text that is too long is cut off; `error` refuses it; `window` "
        "reads it whole."
    ),
]
Label = Annotated[
    str | None,
    AfterValidator(_check_label),
    Field(description="The class to explain; the predicted one if left out."),
]
Labels = Annotated[
    Annotated[list[str], Field(max_length=MOST_NUMBERS, fail_fast=True)] | None,
    Field(description="Two or more labels to choose among; all if left out."),
    AfterValidator(_check_labels),
]


class HeadOff(RequestBody):
    """A head that is switched off."""

    layer: _Number = Field(description="Number of its layer.")
    head: _Number | None = Field(
        None, description="Its number; all heads of the layer if left out.", examples=[1]
    )


HeadMask = Annotated[
    Annotated[list[HeadOff], Field(max_length=MOST_NUMBERS, fail_fast=True)] | None,
    Field(
        description="Heads that are switched off: their outputs count as 0.",
        examples=[[{"layer": 0, "head": 1}]],
    ),
]
Omit = Annotated[
    _Indices | None,
    Field(
        description="Numbers of tokens that are left out of the one text, as `/attention` numbers "
        "them.",
        examples=[[4]],
    ),
]


class PredictRequest(RequestBody):
    """The body of `POST /predict`."""

    # The route judges the items one by one, because a bad one need not refuse the rest.
    sentences: Annotated[
        list[object],
        WithJsonSchema({"type": "array", "items": {"type": "string"}, "minItems": 1}),
        Field(min_length=1, description="The texts, none of them blank."),
        _Counted,
    ]
    truncation: CutOrWhole = "right"
    granularity: Literal["text", "sentence"] = Field(
        "text", description="Whether each text is answered only as a whole, or its sentences too."
    )
    labels: Labels = None
    abstain_below: float | None = Field(
        None,
        ge=0,
        le=1,
        description="Where the probability of the best class is below it, `label` is null.",
        examples=[0.8],
    )
    on_error: Literal["request", "item"] = Field(
        "request",
        description="Whether a bad item refuses the request or only gets an error in its place.",
    )
    head_mask: HeadMask = None
    omit: Omit = None

    @field_validator("omit")
    @classmethod
    def _of_one_text(cls, omit: list[int] | None, info: ValidationInfo) -> list[int] | None:
        if omit is None:
            return omit
        texts = info.data.get("sentences")
        if texts is not None and len(texts) != 1:
            raise ValueError(f"works with one sentence, got {len(texts)}")
        if info.data.get("truncation") == "window":
            raise ValueError('does not work with `truncation: "window"`: leave one out')
        if info.data.get("granularity") == "sentence":
            raise ValueError('does not work with `granularity: "sentence"`: leave one out')
        return omit


def _only_of_windows(window: int, info: ValidationInfo) -> int:
    if window and info.data.get("truncation") != "window":
        raise ValueError('`window` needs `truncation: "window"`')
    return window


Window = Annotated[
    int,
    Field(ge=0, description="Number of the window to show; needs `truncation` `window`."),
    AfterValidator(_only_of_windows),
]


class _Options(RequestBody):
    layer: Numbers = Field(
        None, description="Numbers of the wanted layers, repeated in a query; all if left out."
    )
    head: Numbers = Field(
        None, description="Numbers of the wanted heads, repeated in a query; all if left out."
    )
    truncation: CutOrWhole = "right"
    window: Window = 0
    reduce: Reduce = Field(
        "none",
        description="Joins the heads of each layer to one map; `rollout` joins the layers too.",
    )
    level: Level = Field("token", description="What rows and columns stand for.")
    format: FormName | None = Field(
        None, description="The form of the answer; as `Accept` says if left out.", examples=["json"]
    )
    dtype: Literal["float32", "float16"] = Field(
        "float32", description="Of the weights in the form `npz`; any other has its own digits."
    )
    thumbnail: int | None = Field(
        None,
        ge=LEAST_SIDE,
        le=MOST_SIDE,
        description="Most rows and columns of each map; those of a longer text are reduced. "
        "Works with `json` and `npz`.",
        examples=[48],
    )
    special: bool = Field(
        True, description="Whether special tokens have rows and columns; needs `thumbnail`."
    )
    labels: Labels = None
    head_mask: HeadMask = None

    @field_validator("special")
    @classmethod
    def _only_of_thumbnails(cls, special: bool, info: ValidationInfo) -> bool:
        if not special and info.data.get("thumbnail", 0) is None:
            raise ValueError("`special` needs `thumbnail`")
        return special


class _One(RequestBody):
    sentence: Sentence


class _Several(RequestBody):
    sentences: Annotated[list[Sentence], Field(fail_fast=True), _Counted] = Field(
        min_length=1, description="The texts, none of them blank; the answer is a list."
    )


# Of several bases the fields of the last come first.
class AttentionQuery(_Options, _One):
    """The query of `GET /attention`."""


class AttentionRequest(AttentionQuery):
    """The body of `POST /attention`."""

    omit: Omit = None


class AttentionListRequest(_Options, _Several):
    """The body of `POST /attention` for several sentences."""


class AttributionsRequest(_One):
    """The body of `POST /attributions`."""

    method: Literal[Method, "leave_out"] = Field(
        "integrated_gradients",
        description="Gradients in the mean over the path from the baseline, or only at the text; "
        "or what changes without each unit.",
    )
    truncation: CutOrWhole = "right"
    label: Label = None
    labels: Labels = None
    # Without a default in the interface, which clients that are generated would send.
    steps: int | None = Field(
        None,
        ge=1,
        le=MOST_STEPS,
        description=f"Nodes of the integral, {STEPS} if left out; needs `integrated_gradients`.",
    )
    level: UnitLevel = Field(
        "token", description="What has a number; sentences only with `leave_out`."
    )

    @field_validator("steps")
    @classmethod
    def _only_of_an_integral(cls, steps: int | None, info: ValidationInfo) -> int | None:
        if steps is not None and info.data.get("method", _INTEGRAL) != _INTEGRAL:
            raise ValueError(f'`steps` needs `method: "{_INTEGRAL}"`')
        return steps

    @field_validator("truncation", "level")
    @classmethod
    def _only_of_units(cls, value: str, info: ValidationInfo) -> str:
        if value in ("window", "sentence") and info.data.get("method") != "leave_out":
            raise ValueError(f'`{info.field_name}: "{value}"` needs `method: "leave_out"`')
        return value


class ImportanceRequest(_One):
    """The body of `POST /importance`."""

    truncation: Cut = "right"
    label: Label = None
    labels: Labels = None


class StepsRequest(RequestBody):
    """The body of `POST /attention/steps`."""

    sentence: Sentence
    layer: _Number = Field(description="Number of the layer.")
    head: _Number = Field(description="Number of the head in it.")
    query: int = Field(
        ge=0,
        description="Number of the token whose row of weights it is, as `/attention` numbers it.",
        examples=[2],
    )
    truncation: CutOrWhole = "right"
    window: Window = 0
    head_mask: HeadMask = None
    omit: Omit = None
