"""The shapes of requests, by which they are checked."""

from typing import Annotated, Literal

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    ValidationInfo,
    WithJsonSchema,
    field_validator,
)

from model.attribution import MOST_STEPS, STEPS, Method
from model.errors import InputError
from model.text import check_text
from model.tokenizer import Truncation
from model.views import Level, Reduce

FormName = Literal["json", "npz", "csv", "svg"]
DescribedTruncation = Annotated[
    Truncation,
    Field(description="Which end of a text that is too long is cut off; `error` refuses it."),
]


class _Request(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)


def _not_too_many(sentences: object, info: ValidationInfo) -> object:
    """Counts before any of them is looked at: a body may hold a million."""
    if isinstance(sentences, list):
        limit = (info.context or {}).get("max_sentences", len(sentences))
        if len(sentences) > limit:
            raise ValueError(f"at most {limit} sentences are taken at once, got {len(sentences)}")
    return sentences


class PredictRequest(_Request):
    """The body of `POST /predict`."""

    # Items are judged one by one behind this schema, because a bad one need not refuse the rest.
    sentences: Annotated[
        list[object],
        WithJsonSchema({"type": "array", "items": {"type": "string"}, "minItems": 1}),
        Field(min_length=1, description="The texts, none of them blank."),
        BeforeValidator(_not_too_many),
    ]
    truncation: DescribedTruncation = "right"
    on_error: Literal["request", "item"] = Field(
        "request",
        description="Whether a bad item refuses the request or only gets an error in its place.",
    )


def _sound(text: str) -> str:
    try:
        check_text(text)
    except InputError as error:
        raise ValueError(str(error)) from error
    return text


def _existing(numbers: list[int] | None, info: ValidationInfo) -> list[int] | None:
    count = (info.context or {}).get(f"{info.field_name}s")
    if numbers is not None and count is not None:
        for number in numbers:
            if not 0 <= number < count:
                raise ValueError(f"the model has {info.field_name}s 0 to {count - 1}")
    return numbers


Sentence = Annotated[str, AfterValidator(_sound), Field(description="The text, not blank.")]
Numbers = Annotated[
    list[Annotated[int, WithJsonSchema({"type": "integer", "minimum": 0})]] | None,
    Field(min_length=1, max_length=1000),
    AfterValidator(_existing),
]


class _Options(_Request):
    layer: Numbers = Field(None, description="Numbers of the wanted layers; all if left out.")
    head: Numbers = Field(None, description="Numbers of the wanted heads; all if left out.")
    truncation: DescribedTruncation = "right"
    reduce: Reduce = Field(
        "none",
        description="Joins the heads of each layer to one map; `rollout` joins the layers too.",
    )
    level: Level = Field("token", description="What rows and columns stand for.")
    format: FormName | None = Field(
        None, description="The form of the answer; as `Accept` says if left out."
    )
    dtype: Literal["float32", "float16"] = Field(
        "float32", description="Of the weights in the form `npz`; any other has its own digits."
    )


class _One(_Request):
    sentence: Sentence


class _Several(_Request):
    sentences: Annotated[list[Sentence], BeforeValidator(_not_too_many)] = Field(
        min_length=1, description="The texts, none of them blank; the answer is a list."
    )


# Of several bases the fields of the last come first.
class AttentionRequest(_Options, _One):
    """The body of `POST /attention`, and the query of `GET /attention`."""


class AttentionListRequest(_Options, _Several):
    """The body of `POST /attention` for several sentences."""


def _known(label: str | None, info: ValidationInfo) -> str | None:
    labels = (info.context or {}).get("labels")
    if label is not None and labels is not None and label not in labels:
        raise ValueError(f"the model has the labels {', '.join(labels)}")
    return label


Label = Annotated[
    str | None,
    AfterValidator(_known),
    Field(description="The class to explain; the predicted one if left out."),
]


class AttributionsRequest(_Request):
    """The body of `POST /attributions`, and the query of `GET /attributions`."""

    sentence: Sentence
    truncation: DescribedTruncation = "right"
    label: Label = None
    method: Method = Field(
        "integrated_gradients",
        description="Gradients in the mean over the path from the baseline, or only at the text.",
    )
    steps: int = Field(
        STEPS,
        ge=1,
        le=MOST_STEPS,
        description="Nodes of the integral; of `integrated_gradients` alone.",
    )
    level: Level = Field("token", description="Whether the tokens of a word are summed.")

    @field_validator("steps")
    @classmethod
    def _of_an_integral(cls, steps: int, info: ValidationInfo) -> int:
        if info.data.get("method") == "gradient_x_input":
            raise ValueError("gradient_x_input takes no steps: leave them out")
        return steps


class ImportanceRequest(_Request):
    """The body of `POST /importance`, and the query of `GET /importance`."""

    sentence: Sentence
    truncation: DescribedTruncation = "right"
    label: Label = None
