"""Defines the shapes of answers, which describe them."""

from typing import Annotated, Literal

from pydantic import BaseModel, Field

from model.checkpoint.records import Metric
from service.errors import TYPE_PREFIX


class ModelName(BaseModel):
    """Which model answered."""

    name: str
    version: str = Field(description="First 12 hex digits of the SHA-256 of the weights file.")


class PredictionAnswer(BaseModel):
    """What the model says of one text."""

    label: str | None = Field(description="The most probable class; null below `abstain_below`.")
    score: float = Field(ge=0, le=1, description="The probability of the most probable class.")
    probabilities: dict[str, float] = Field(description="Calibrated; they sum to 1.")
    token_count: int = Field(
        ge=0, description="Tokens read, special tokens included; of all windows together."
    )
    truncated: bool
    warnings: list[Literal["not-english"]] | None = Field(
        None,
        description="What makes it doubtful, if anything: `not-english` where a third of a text is "
        "surely not in English and the model reads nothing else.",
    )


class _Named(BaseModel):
    model: ModelName


class _Explained(_Named):
    prediction: PredictionAnswer


class _Span(BaseModel):
    start: int = Field(ge=0)
    end: int = Field(ge=1)


# Of several bases the fields of the last come first.
class SentenceAnswer(PredictionAnswer, _Span):
    """What the model says of one sentence of a text; offsets count Unicode code points."""


class ItemAnswer(PredictionAnswer):
    """What the model says of one item of a request."""

    windows: int | None = Field(
        None, ge=1, description="Windows that were read; there if `truncation` is `window`."
    )
    sentences: list[SentenceAnswer] | None = Field(
        None, description="Of each sentence, in order; there if `granularity` is `sentence`."
    )


class FieldErrorAnswer(BaseModel):
    """One error of a request."""

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
    fits: dict[Literal["tokens", "steps"], int] | None = Field(
        None, description="How much would not be too much work."
    )
    trace_id: str | None = Field(default=None, pattern="^[0-9a-f]{32}$")
    error: str | None = Field(None, description="The same as `detail`, for other systems' clients.")


class ItemError(BaseModel):
    """Stands in the place of a bad item when `on_error` is `item`."""

    error: Problem


class PredictAnswer(_Named):
    """The answer of `POST /predict`."""

    predictions: list[ItemAnswer | ItemError]


class TokenAnswer(BaseModel):
    """One token; offsets count Unicode code points of the sentence."""

    text: str
    start: int
    end: int
    special: bool
    word: int | None


class _OfWindow(BaseModel):
    window: int | None = Field(
        None, ge=0, description="Number of the window; there if `truncation` is `window`."
    )
    windows: int | None = Field(None, ge=1, description="Windows of the text; there likewise.")


class AttentionAnswer(_OfWindow, _Explained):
    """The answer of `/attention`: `attention[l][h][q][k]` is what query q gives to key k."""

    tokens: list[TokenAnswer]
    layers: list[int]
    heads: list[int]
    view: str | None = Field(None, description="Name of a derived view; not there for raw weights.")
    attention: list[list[list[list[float]]]]
    strongest: list[list[list[int]]] | None = Field(
        None, description="Of each query, the key of its largest weight; there with `thumbnail`."
    )
    strongest_weights: list[list[list[float]]] | None = Field(
        None, description="That weight; there likewise."
    )


class AttributionsAnswer(_Explained):
    """The answer of `/attributions`: a number for each entry of `tokens`."""

    view: str = Field(description="The method, and `+word` where the tokens of a word are summed.")
    label: str
    tokens: list[TokenAnswer]
    attributions: list[float] = Field(description="What each adds to the log-odds of `label`.")
    steps: int | None
    value: float = Field(description="Calibrated log-odds of `label` for the text.")
    baseline_value: float = Field(description="The same for the baseline.")
    gap: float = Field(description="`value - baseline_value` minus the sum of `attributions`.")


class UnitAnswer(_Span):
    """A unit of a text, and what the label has without it; a change is what the text has more."""

    text: str
    probability: float = Field(ge=0, le=1, description="Calibrated, of `label`, without the unit.")
    log_odds: float = Field(description="Of that probability.")
    probability_change: float = Field(ge=-1, le=1)
    log_odds_change: float


class LeaveOutAnswer(AttributionsAnswer):
    """The answer of `/attributions` with `leave_out`; `tokens` has an entry for each unit."""

    units: list[UnitAnswer] = Field(
        description="In the order of the text. A sentence stands for its words or tokens if none "
        "of them, but the sentence was computed."
    )
    partial: bool = Field(description="Whether units are missing that the time was too short for.")


class ImportanceAnswer(_Explained):
    """The answer of `/importance`: `importance[l][h]` is how much `label` depends on a head."""

    view: str
    label: str
    layers: list[int]
    heads: list[int]
    importance: list[list[Annotated[float, Field(ge=0)]]]


class StepsAnswer(_OfWindow, _Named):
    """The answer of `/attention/steps`: how a head makes the row of weights of one query."""

    tokens: list[TokenAnswer]
    layer: int
    head: int
    query: int
    scale: float = Field(description="1 / √d, where d is the length of a query vector.")
    query_vector: list[float] = Field(description="The query of the token `query`.")
    keys: list[list[float]] = Field(description="The key of each token.")
    scores: list[float] = Field(
        description="For each token, the product of `query_vector` and its key, times `scale`."
    )
    weights: list[Annotated[float, Field(ge=0)]] = Field(description="The softmax of `scores`.")
    values: list[list[float]] = Field(description="The value of each token.")
    result: list[float] = Field(description="The sum of `values`, each times its weight.")


class LimitsAnswer(BaseModel):
    """What a request is refused beyond; each is counted as the error that refuses counts it."""

    max_length: int = Field(description="Tokens of a text with `truncation` `error`.")
    max_windows: int = Field(description="Windows of a text with `truncation` `window`.")
    max_sentences: int = Field(description="Texts of one request.")
    max_item_sentences: int = Field(
        description="Sentences of a text with `granularity` `sentence`."
    )
    max_body_bytes: int = Field(description="Bytes of a request body.")
    max_head_bytes: int = Field(description="Bytes of the first line and headers of a request.")
    max_query_parameters: int = Field(description="Parameters of a query.")
    max_values: int = Field(description="Values in the JSON of a body.")
    max_numbers: int = Field(description="Numbers in `layer` or `head`.")
    max_steps: int = Field(description="`steps` of an attribution.")
    max_attention_weights: int = Field(description="Weights in an answer of attention.")
    max_svg_weights: int = Field(description="The same in the form `svg`.")
    max_thumbnail: int = Field(description="Rows and columns of a thumbnail.")
    max_sending_bytes: int = Field(
        description="Bytes of all large answers that are made or wait to be sent."
    )
    max_normalized_characters: int = Field(
        description="Characters that any text may become when it is normalised."
    )
    max_work_tokens: int = Field(description="Tokens of the texts of one request.")
    max_attention_tokens: int = Field(description="The same where attention is asked for.")
    max_work_steps: int = Field(
        description="`steps` of an attribution of a text of `max_length` tokens."
    )
    max_queue_tokens: int = Field(description="Tokens that may wait, of all requests together.")
    max_connections: int = Field(description="Connections at once, of all clients together.")
    request_timeout: float = Field(description="Seconds until a request is given up.")
    rate_limit: str | None = Field(description="Requests of one client in a time; null: any.")
    token_quota: str | None = Field(description="Tokens of one client in a time; null: any.")


class ThresholdAnswer(BaseModel):
    """What is left if only answers whose score is `threshold` or more count."""

    threshold: float = Field(ge=0, le=1)
    rows: int = Field(ge=0, description="Texts that keep their answer.")
    share: float = Field(ge=0, le=1, description="Their share of all texts.")
    accuracy: float | None = Field(description="Share of these answers that are right.")
    precision: dict[str, float | None] = Field(
        description="Of the answers with a label, the share that is right; null without answers."
    )
    recall: dict[str, float | None] = Field(
        description="Of the texts of a label, the share that is answered with it."
    )


class ThresholdsAnswer(BaseModel):
    """What thresholds leave of the answers to the texts that the model was measured on."""

    sets: list[str] = Field(description="Names of the sets that the texts are of.")
    rows: int = Field(ge=1, description="How many texts they are.")
    by_threshold: list[ThresholdAnswer] = Field(description="Ascending.")


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
    engine: str = Field(description="What computes it: `kernels (avx2)`, `eager`, `cuda`.")
    dtype: str
    dtype_reason: str = Field(description="Why it computes in `dtype`, in one sentence.")
    metrics: list[Metric]
    thresholds: ThresholdsAnswer | None = Field(
        description="What thresholds leave of the validation texts; null if it was not recorded."
    )
    language: str | None = Field(
        description="The code of the only language that it reads, such as `en`; null: unknown."
    )
    pair_temperature: float | None = Field(
        description="Of a choice between `negative` and `positive`; null: `temperature`."
    )
    methods: list[str] = Field(
        description="What can be asked at once; the first of the others loads what it needs."
    )
    limits: LimitsAnswer


class HealthAnswer(BaseModel):
    """The answer of a health route."""

    status: Literal["live", "ready"]
