"""The shapes of answers, by which they are described."""

from typing import Annotated, Literal

from pydantic import BaseModel, Field

from model.manifest import Metric
from service.errors import TYPE_PREFIX


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
    view: str | None = Field(None, description="Name of a derived view; not there for raw weights.")
    attention: list[list[list[list[float]]]]


class AttributionsAnswer(BaseModel):
    """The answer of `/attributions`: a number for each entry of `tokens`."""

    model: ModelName
    prediction: PredictionAnswer
    view: str = Field(description="The method, and `+word` where the tokens of a word are summed.")
    label: str
    tokens: list[TokenAnswer]
    attributions: list[float] = Field(description="What each adds to the log-odds of `label`.")
    steps: int | None
    value: float = Field(description="Calibrated log-odds of `label` for the text.")
    baseline_value: float = Field(description="The same for the baseline.")
    gap: float = Field(description="`value - baseline_value` minus the sum of `attributions`.")


class ImportanceAnswer(BaseModel):
    """The answer of `/importance`: `importance[l][h]` is how much `label` depends on a head."""

    model: ModelName
    prediction: PredictionAnswer
    view: str
    label: str
    layers: list[int]
    heads: list[int]
    importance: list[list[Annotated[float, Field(ge=0)]]]


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
