"""What the service answers, as frozen types; attention has a module of its own."""

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Answer:
    """What came back, unread.

    Args:
        status: of the response.
        headers: of the response, by name whatever its case.
        content: the whole body; no part of `repr`, because it holds words of the sentences.
    """

    status: int
    headers: Mapping[str, str]
    content: bytes = field(repr=False)


@dataclass(frozen=True, slots=True)
class ModelName:
    """Which weights answered.

    Args:
        name: of the checkpoint folder.
        version: the first 12 hex digits of the SHA-256 of the weights file.
    """

    name: str
    version: str


@dataclass(frozen=True, slots=True)
class Prediction:
    """What the model says of one text.

    Args:
        label: the most probable class.
        score: its probability.
        probabilities: of every class, calibrated; they sum to 1.
        token_count: tokens that the model read, special tokens included.
        truncated: whether a part of the text was cut off.
        model: that said so.
    """

    label: str
    score: float
    probabilities: Mapping[str, float]
    token_count: int
    truncated: bool
    model: ModelName


@dataclass(frozen=True, slots=True)
class FieldError:
    """One fault of a request.

    Args:
        loc: where it is: `body`, then names and indices, as in `("body", "sentences", 1)`.
        msg: what is wrong there, and what would be right.
    """

    loc: tuple[str | int, ...]
    msg: str


@dataclass(frozen=True, slots=True)
class Problem:
    """An error of the service, after RFC 9457.

    Args:
        type: the word that tells errors apart and never changes, such as `overloaded`; or
            `about:blank` where something between here and the service refused.
        status: of the answer; of an item, the one that it would have had alone.
        title: the type in words.
        detail: what is wrong this time, the limit, and what to do.
        errors: the single faults of the request.
        retry_after: when to come back, in seconds.
    """

    type: str
    status: int
    title: str
    detail: str
    errors: tuple[FieldError, ...] = ()
    retry_after: float | None = None


@dataclass(frozen=True, slots=True)
class ItemError(Problem):
    """Stands in the place of a bad sentence when `on_error` is `item`."""


@dataclass(frozen=True, slots=True)
class Token:
    """One token that the model read, or one word.

    Args:
        text: as the vocabulary spells it, `##` continues a word; of a word, as it was written.
        start: where it begins in the sentence, in code points; 0 if special.
        end: where it ends; 0 if special.
        special: whether the tokenizer added it, such as `[CLS]`.
        word: index of the run of non-space characters that it belongs to; None if special.
    """

    text: str
    start: int
    end: int
    special: bool
    word: int | None


@dataclass(frozen=True, slots=True)
class Metric:
    """What was measured on one set when the checkpoint was made.

    Args:
        name: of the set.
        rows: of the set.
        accuracy: share of right labels.
        interval: of the accuracy, 95 %.
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
class ModelInfo:
    """Which model answers, as `GET /model` shows it.

    Args:
        name: of the checkpoint folder.
        version: the first 12 hex digits of the SHA-256 of the weights file.
        architecture: the network, by the name that transformers gives it.
        labels: in the order of the classes.
        num_layers: that attention can be had of.
        num_heads: of each layer.
        hidden_size: features of a token.
        parameters: how many numbers were trained.
        max_length: the most tokens that are read, special tokens included.
        temperature: that logits are divided by.
        device: where the network computes.
        dtype: in what it computes.
        metrics: of the checkpoint.
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
