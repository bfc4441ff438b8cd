"""Defines the service's answers as frozen types, except attention and attributions."""

from collections.abc import Mapping
from dataclasses import dataclass, field

_LONGEST_SHOWN = 60


def shortened(text: str) -> str:
    """A text of the user as a `repr` shows it: of a long one, the beginning."""
    return text if len(text) <= _LONGEST_SHOWN else f"{text[: _LONGEST_SHOWN - 1]}…"


@dataclass(frozen=True, slots=True)
class Answer:
    """A response before its body is parsed.

    Args:
        status: of the response.
        headers: of the response; names match in any case.
        content: the whole body; hidden from `repr`, because it holds words of the sentences.
    """

    status: int
    headers: Mapping[str, str]
    content: bytes = field(repr=False)


@dataclass(frozen=True, slots=True)
class ModelName:
    """The weights that answered.

    Args:
        name: of the checkpoint folder.
        version: the first 12 hex digits of the SHA-256 of the weights file.
    """

    name: str
    version: str


@dataclass(frozen=True, slots=True, repr=False)
class Sentence:
    """The model's prediction for one sentence of a text.

    Args:
        start: offset of its first character in the text, in code points.
        end: offset behind its last character.
        label: the most probable class; None if its probability is below `abstain_below`.
        score: the probability of the most probable class.
        probabilities: of every class, calibrated; they sum to 1.
        token_count: tokens that the model read, special tokens included.
        truncated: whether a part of the sentence was cut off.
    """

    start: int
    end: int
    label: str | None
    score: float
    probabilities: Mapping[str, float]
    token_count: int
    truncated: bool

    def __repr__(self) -> str:
        """The place, the label and its probability."""
        return f"Sentence({self.start}:{self.end}, {self.label!r}, {self.score:.4f})"


@dataclass(frozen=True, slots=True, repr=False)
class Prediction:
    """The model's prediction for one text.

    Args:
        label: the most probable class; None if its probability is below `abstain_below`.
        score: the probability of the most probable class.
        probabilities: of every class, calibrated; they sum to 1.
        token_count: tokens that the model read, special tokens included; of several windows all
            together.
        truncated: whether a part of the text was cut off.
        model: that made the prediction.
        windows: how many windows the text was read in; None unless `truncation` is `window`.
        sentences: of each sentence, in order; None unless `granularity` is `sentence`.
    """

    label: str | None
    score: float
    probabilities: Mapping[str, float]
    token_count: int
    truncated: bool
    model: ModelName
    windows: int | None = None
    sentences: tuple[Sentence, ...] | None = None

    def __repr__(self) -> str:
        """The label, its probability and how much was read."""
        more = ", truncated" if self.truncated else ""
        if self.windows is not None and self.windows > 1:
            more += f", {self.windows} windows"
        if self.sentences is not None:
            more += f", {len(self.sentences)} sentence{'s' * (len(self.sentences) != 1)}"
        return f"Prediction({self.label!r}, {self.score:.4f}, {self.token_count} tokens{more})"


@dataclass(frozen=True, slots=True)
class FieldError:
    """One fault of a request.

    Args:
        loc: where it is: `body`, then names and indices, as in `("body", "sentences", 1)`.
        msg: what is wrong there, and what is allowed.
    """

    loc: tuple[str | int, ...]
    msg: str


@dataclass(frozen=True, slots=True)
class Problem:
    """An error of the service, in the form of RFC 9457.

    Args:
        type: a stable word that identifies the error, such as `overloaded`; `about:blank` if
            something between the client and the service refused.
        status: of the answer; for an item, the status it would have had alone.
        title: the type in words.
        detail: what is wrong this time, the limit, and what to do.
        errors: each fault of the request.
        retry_after: seconds to wait before the next try.
    """

    type: str
    status: int
    title: str
    detail: str
    errors: tuple[FieldError, ...] = ()
    retry_after: float | None = None


@dataclass(frozen=True, slots=True)
class ItemError(Problem):
    """The error of one bad sentence, in its place, when `on_error` is `item`."""


@dataclass(frozen=True, slots=True, repr=False)
class Token:
    """One token that the model read, or one word.

    Args:
        text: of a token, as the vocabulary spells it (`##` continues a word); of a word, as
            written.
        start: offset of its start in the sentence, in code points; 0 if special.
        end: offset of its end; 0 if special.
        special: whether the tokenizer added it, such as `[CLS]`.
        word: index of the run of non-space characters that it belongs to; None if special.
    """

    text: str
    start: int
    end: int
    special: bool
    word: int | None

    def __repr__(self) -> str:
        """The text, a long one shortened, and its place."""
        place = "special" if self.special else f"{self.start}:{self.end}"
        return f"Token({shortened(self.text)!r}, {place})"


@dataclass(frozen=True, slots=True)
class Metric:
    """A measurement on one data set, made when the checkpoint was trained.

    Args:
        name: of the set.
        rows: in the set.
        accuracy: share of correct labels.
        interval: 95 % interval of the accuracy.
        log_loss: in nats.
        ece: expected calibration error.
    """

    name: str
    rows: int
    accuracy: float
    interval: tuple[float, float]
    log_loss: float
    ece: float


@dataclass(frozen=True, slots=True)
class Threshold:
    """What is left of the measured texts if only answers with this score or more count.

    Args:
        threshold: the lowest score that counts, 0 to 1.
        rows: texts that keep their answer.
        share: their share of all texts.
        accuracy: share of these answers that are right; None without answers.
        precision: by label, of the answers with it the share that is right; None without any.
        recall: by label, of the texts of it the share that is answered with it.
    """

    threshold: float
    rows: int
    share: float
    accuracy: float | None
    precision: Mapping[str, float | None] = field(hash=False)
    recall: Mapping[str, float | None] = field(hash=False)


@dataclass(frozen=True, slots=True)
class Thresholds:
    """What thresholds leave of the answers to the texts that the model was measured on.

    Args:
        sets: names of the sets that the texts are of.
        rows: how many texts they are.
        by_threshold: what each threshold leaves, ascending.
    """

    sets: tuple[str, ...]
    rows: int
    by_threshold: tuple[Threshold, ...]


@dataclass(frozen=True, slots=True, repr=False)
class ModelInfo:
    """The served model, as `GET /model` describes it.

    Args:
        name: of the checkpoint folder.
        version: the first 12 hex digits of the SHA-256 of the weights file.
        architecture: the network, by the name that transformers gives it.
        labels: in the order of the classes.
        num_layers: layers with attention weights.
        num_heads: heads of each layer.
        hidden_size: features of a token.
        parameters: number of trained weights.
        max_length: most tokens the model reads, special tokens included.
        temperature: divides the logits.
        device: where the network computes.
        dtype: the type it computes in.
        metrics: recorded with the checkpoint.
        dtype_reason: why it computes in that type; blank from a service that does not tell.
        limits: beyond which a request is refused, by the names of settings; none from a service
            that does not tell.
        thresholds: what thresholds leave of the validation texts; None if it was not recorded, or
            from a service that does not tell.
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
    dtype_reason: str = ""
    limits: Mapping[str, float | str | None] = field(default_factory=dict, hash=False)
    thresholds: Thresholds | None = None

    def __repr__(self) -> str:
        """Name, network and labels; the figures are attributes."""
        return (
            f"ModelInfo({self.name!r}, version {self.version}, {self.architecture}, "
            f"{self.num_layers} layers x {self.num_heads} heads, labels {list(self.labels)}, "
            f"{self.device} {self.dtype})"
        )
