"""The shapes of requests and answers: requests are checked by them, answers described."""

from typing import Annotated, Literal

from pydantic import (
    AfterValidator,
    BaseModel,
    ConfigDict,
    Field,
    ValidationInfo,
    WithJsonSchema,
    field_validator,
)

from model.errors import InputError
from model.manifest import Metric
from model.text import check_text
from model.tokenizer import Truncation
from service.errors import TYPE_PREFIX

DescribedTruncation = Annotated[
    Truncation,
    Field(description="Which end of a text that is too long is cut off; `error` refuses it."),
]


class _Request(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)


class PredictRequest(_Request):
    """The body of `POST /predict`."""

    # Items are judged one by one behind this schema, because a bad one need not refuse the rest.
    sentences: Annotated[
        list[object],
        WithJsonSchema({"type": "array", "items": {"type": "string"}, "minItems": 1}),
        Field(min_length=1, description="The texts, none of them blank."),
    ]
    truncation: DescribedTruncation = "right"
    on_error: Literal["request", "item"] = Field(
        "request",
        description="Whether a bad item refuses the request or only gets an error in its place.",
    )

    @field_validator("sentences")
    @classmethod
    def _not_too_many(cls, sentences: list[object], info: ValidationInfo) -> list[object]:
        limit = (info.context or {}).get("max_sentences", len(sentences))
        if len(sentences) > limit:
            raise ValueError(f"at most {limit} sentences are taken at once, got {len(sentences)}")
        return sentences


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


Numbers = Annotated[
    list[Annotated[int, WithJsonSchema({"type": "integer", "minimum": 0})]] | None,
    Field(min_length=1, max_length=1000),
    AfterValidator(_existing),
]


class AttentionRequest(_Request):
    """The body of `POST /attention`, and the query of `GET /attention`."""

    sentence: Annotated[str, AfterValidator(_sound), Field(description="The text, not blank.")]
    layer: Numbers = Field(None, description="Numbers of the wanted layers; all if left out.")
    head: Numbers = Field(None, description="Numbers of the wanted heads; all if left out.")
    truncation: DescribedTruncation = "right"


class ModelName(BaseModel):
    """Which model answered."""

    name: str
    version: str = Field(description="First 12 hex digits of the SHA-256 of the weights file.")


class PredictionAnswer(BaseModel):
    """What the model says of one text."""

    label: str
    score: float = Field(ge=0, le=1, description="The probability of `label`.")
    probabilities: dict[str, float] = Field(description="Calibrated; they sum to 1.")
    token_count: int = Field(ge=0, description="Tokens read, special tokens included.")
    truncated: bool


class FieldErrorAnswer(BaseModel):
    """One fault of a request."""

    loc: list[str | int]
    msg: str


class Problem(BaseModel):
    """An error, after RFC 9457."""

    type: str = Field(pattern=f"^{TYPE_PREFIX}[a-z-]+$")
    title: str
    status: int
    detail: str
    errors: list[FieldErrorAnswer] | None = None
    retry_after: int | None = None


class ItemError(BaseModel):
    """Stands in the place of a bad item when `on_error` is `item`."""

    error: Problem


class PredictAnswer(BaseModel):
    """The answer of `POST /predict`."""

    model: ModelName
    predictions: list[PredictionAnswer | ItemError]


class TokenAnswer(BaseModel):
    """One token; offsets count Unicode code points of the sentence."""

    text: str
    start: int
    end: int
    special: bool
    word: int | None


class AttentionAnswer(BaseModel):
    """The answer of `/attention`: `attention[l][h][q][k]` is what query q gives to key k."""

    model: ModelName
    prediction: PredictionAnswer
    tokens: list[TokenAnswer]
    layers: list[int]
    heads: list[int]
    attention: list[list[list[list[float]]]]


class ModelAnswer(BaseModel):
    """The answer of `GET /model`."""

    name: str
    version: str
    architecture: str
    labels: list[str]
    num_layers: int
    num_heads: int
    hidden_size: int
    parameters: int
    max_length: int
    temperature: float
    device: str
    dtype: str
    metrics: list[Metric]


class HealthAnswer(BaseModel):
    """The answer of a health route."""

    status: Literal["live", "ready"]
