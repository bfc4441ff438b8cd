"""Defines the service's answers as frozen types, except attention and attributions."""

from collections.abc import Mapping
from dataclasses import dataclass, field

_LONGEST_SHOWN = 60


def shortened(text: str) -> str:
    """Returns a user's text as a `repr` shows it: only the beginning of a long one."""
    return text if len(text) <= _LONGEST_SHOWN else f"{text[: _LONGEST_SHOWN - 1]}…"


@dataclass(frozen=True, slots=True)
class Answer:
    """A response before its body is parsed; header names match in any case."""

    status: int
    headers: Mapping[str, str]
    content: bytes = field(repr=False)  # it holds words of the sentences


@dataclass(frozen=True, slots=True)
class ModelName:
    """The checkpoint that answered; `version` begins the SHA-256 of its weights file."""

    name: str
    version: str


@dataclass(frozen=True, slots=True, repr=False)
class Sentence:
    """The model's prediction for the sentence `text[start:end]`, in code points.

    The other members are those of `Prediction`.
    """

    start: int
    end: int
    label: str | None
    score: float
    probabilities: Mapping[str, float]
    token_count: int
    truncated: bool

    def __repr__(self) -> str:
        return f"Sentence({self.start}:{self.end}, {self.label!r}, {self.score:.4f})"


@dataclass(frozen=True, slots=True, repr=False)
class Prediction:
    """The model's prediction for one text.

    Args:
        label: the most probable class; None if its probability is below `abstain_below`.
        score: the probability of the most probable class.
        probabilities: calibrated, by class; they sum to 1.
        token_count: tokens that the model read in all windows, special tokens included.
        truncated: whether a part of the text was cut off.
        windows: how many windows the text was read in; None unless `truncation` is `window`.
        sentences: predictions in text order; None unless `granularity` is `sentence`.
        warnings: what makes it doubtful, such as `not-english`.
    """

    label: str | None
    score: float
    probabilities: Mapping[str, float]
    token_count: int
    truncated: bool
    model: ModelName
    windows: int | None = None
    sentences: tuple[Sentence, ...] | None = None
    warnings: tuple[str, ...] = ()

    def __repr__(self) -> str:
        more = ", truncated" if self.truncated else ""
        if self.windows is not None and self.windows > 1:
            more += f", {self.windows} windows"
        if self.sentences is not None:
            more += f", {len(self.sentences)} sentence{'s' * (len(self.sentences) != 1)}"
        return f"Prediction({self.label!r}, {self.score:.4f}, {self.token_count} tokens{more})"


@dataclass(frozen=True, slots=True)
class FieldError:
    """One error of a request.

    Args:
        loc: `body`, then names and indices, such as `("body", "sentences", 1)`.
        msg: what is wrong there, and what is allowed.
    """

    loc: tuple[str | int, ...]
    msg: str


@dataclass(frozen=True, slots=True)
class Problem:
    """An error of the service, in the form of RFC 9457.

    Args:
        type: a stable word that identifies the error, such as `overloaded`; `about:blank` if
            something between the client and the service rejected the request.
        status: the HTTP status; for an item, the one of a request with only this sentence.
        title: the type in words.
        detail: what is wrong this time, the limit, and what to do.
        retry_after: seconds to wait before the next try.
        fits: how much would not be `too-much-work`: `tokens` of all texts, or `steps`.
    """

    type: str
    status: int
    title: str
    detail: str
    errors: tuple[FieldError, ...] = ()
    retry_after: float | None = None
    fits: Mapping[str, int] | None = field(default=None, hash=False)


@dataclass(frozen=True, slots=True)
class ItemError(Problem):
    """The error of one bad sentence, in its place, when `on_error` is `item`."""


@dataclass(frozen=True, slots=True, repr=False)
class Token:
    """One token that the model read, or one word.

    Args:
        text: a token as the vocabulary spells it (`##` continues a word), or a word as written.
        start, end: its characters in the sentence, in code points; both 0 if special.
        special: whether the tokenizer added it, such as `[CLS]`.
        word: index of the run of non-space characters that it belongs to; None if special.
    """

    text: str
    start: int
    end: int
    special: bool
    word: int | None

    def __repr__(self) -> str:
        place = "special" if self.special else f"{self.start}:{self.end}"
        return f"Token({shortened(self.text)!r}, {place})"


@dataclass(frozen=True, slots=True)
class Metric:
    """A measurement on one data set after training.

    `interval` is the 95 % interval of the accuracy, `log_loss` is in nats, and `ece` is the
    expected calibration error.
    """

    name: str
    rows: int
    accuracy: float
    interval: tuple[float, float]
    log_loss: float
    ece: float


@dataclass(frozen=True, slots=True)
class Threshold:
    """The quality of the answers whose score is at least `threshold`.

    Args:
        rows: how many texts have such an answer.
        share: their share of all texts.
        accuracy: share of correct answers; None without answers.
        precision: by label; None for a label without answers.
        recall: by label.
    """

    threshold: float
    rows: int
    share: float
    accuracy: float | None
    precision: Mapping[str, float | None] = field(hash=False)
    recall: Mapping[str, float | None] = field(hash=False)


@dataclass(frozen=True, slots=True)
class Thresholds:
    """What each threshold, ascending, leaves of the answers to the texts of `sets`."""

    sets: tuple[str, ...]
    rows: int
    by_threshold: tuple[Threshold, ...]


@dataclass(frozen=True, slots=True, repr=False)
class ModelInfo:
    """The served model, as `GET /model` describes it.

    Args:
        version: the first 12 hex digits of the SHA-256 of the weights file.
        architecture: the network's name in transformers.
        num_layers: layers with attention weights.
        max_length: most tokens that the model reads, special tokens included.
        temperature: divides the logits.
        engine: what computes it, like `kernels (avx2)`; blank from an older service.
        dtype_reason: why it computes in `dtype`; blank from an older service.
        methods: what can be asked at once; empty from an older service, like `limits`.
        limits: the largest requests that it takes, by setting.
        thresholds: measured on the validation texts; None if it was not recorded.
        language: the code of the only language that it reads, such as `en`; None if unknown.
        pair_temperature: of a choice between `negative` and `positive`; None: `temperature`.
    """

    name: str
    version: str
    architecture: str
    labels: tuple[str, ...]
    num_layers: int
    num_heads: int
    hidden_size: int
    parameters: int
    max_length: int
    temperature: float
    device: str
    dtype: str
    metrics: tuple[Metric, ...]
    engine: str = ""
    dtype_reason: str = ""
    methods: tuple[str, ...] = ()
    limits: Mapping[str, float | str | None] = field(default_factory=dict, hash=False)
    thresholds: Thresholds | None = None
    language: str | None = None
    pair_temperature: float | None = None

    def __repr__(self) -> str:
        return (
            f"ModelInfo({self.name!r}, version {self.version}, {self.architecture}, "
            f"{self.num_layers} layers x {self.num_heads} heads, labels {list(self.labels)}, "
            f"{self.device} {self.dtype})"
        )
