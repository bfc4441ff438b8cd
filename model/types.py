"""Names what goes from one stage to the next: text, encoding, batch, output, prediction.

Legend: B batch, T tokens, L layers, H heads, C classes, W words (a special token counts as one).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from itertools import chain
from operator import mul
from typing import TYPE_CHECKING, Literal, NamedTuple, Protocol

from model.errors import NotFiniteError

if TYPE_CHECKING:  # to read texts, nothing needs these
    import numpy as np
    from numpy.typing import NDArray
    from torch import Tensor

#: which end of a text is cut off that is longer than the model reads; `error` refuses it
Truncation = Literal["right", "left", "error"]
#: what becomes of such a text; `window` reads it whole
Reading = Literal["right", "left", "error", "window"]
#: how maps of attention are joined; see `model.explain.views.reduce_weights`
Reduce = Literal["none", "mean", "max", "rollout"]


@dataclass(frozen=True, slots=True)
class Token:
    """One token of a text.

    Args:
        text: the token as the vocabulary spells it (`##ing` continues a word).
        start: offset of its first character in the text, in Unicode code points.
        end: offset after its last character; both offsets are 0 for a special token.
        special: True for a token that the tokenizer adds (`[CLS]`, `[SEP]`).
        word: index of its word, a run of non-space characters; None if special.
    """

    text: str
    start: int
    end: int
    special: bool
    word: int | None


@dataclass(frozen=True, slots=True)
class Encoding:
    """A text as token ids.

    Args:
        input_ids: the ids that the model reads, special tokens included, at most `max_length`.
        truncated: whether a part of the text was cut off.
        text: the whole text as it was given, if tokens were requested; their offsets point into
            it.
        window: number of the window that this is, from 0.
        windows: into how many windows the text was divided; None if it was not to be.
        head_mask: factor of each head's output, [L][H]; None means 1 for all.
    """

    input_ids: list[int]
    truncated: bool
    tokens: tuple[Token, ...] | None = None
    text: str | None = None
    window: int = 0
    windows: int | None = None
    head_mask: tuple[tuple[float, ...], ...] | None = None


@dataclass(frozen=True, slots=True)
class Span:
    """A part of a text, between two indices in Unicode code points."""

    start: int
    end: int


@dataclass(frozen=True, slots=True)
class Words:
    """The W words of a text, in order, with their characters as the user wrote them.

    Of a word that was cut, it is what was read; a special token stays as it is.
    """

    tokens: tuple[Token, ...]
    groups: tuple[tuple[int, ...], ...]  # indices of each one's tokens: neighbours, each in one


@dataclass(slots=True)
class EncodedText:
    """A text as the model reads it."""

    windows: Sequence[Encoding]  # the whole text; one unless it is read in windows
    sentences: Sequence[Sequence[Encoding]] | None = None  # their windows; None: not read
    spans: Sequence[Span] = ()  # where each sentence stands in the text
    warnings: tuple[str, ...] = ()  # words for what makes its answer doubtful

    @property
    def encodings(self) -> list[Encoding]:
        """All that goes through the network: the whole, then the sentences."""
        return list(chain(self.windows, *(self.sentences or ())))


@dataclass(frozen=True, slots=True)
class Batch:
    """The input of a classifier.

    Args:
        input_ids: token ids, int64 [B, T].
        key_padding_mask: True where a position is padding, bool [B, T]; None without padding.
            Each row has at least one token.
        head_mask: factor of each head's output, float32 [L, B, H]; None means 1 for all.
    """

    input_ids: Tensor
    key_padding_mask: Tensor | None
    head_mask: Tensor | None = None


class ClassifierOutput(NamedTuple):
    """The output of a classifier.

    Args:
        logits: unnormalised scores of the classes, float32 [B, C].
        attention_weights: the weights of each layer, float32 [B, H, T, T]; empty unless
            requested.
    """

    logits: Tensor
    attention_weights: tuple[Tensor, ...]


class Classifier(Protocol):
    """A network that classifies texts."""

    def __call__(self, batch: Batch, *, need_weights: bool = False) -> ClassifierOutput:
        """Runs a forward pass over a batch of B texts of at most T tokens."""
        ...


@dataclass(slots=True, repr=False)  # frozen, each would take three times as long to make
class Prediction:
    """The answer of the model for one text.

    Args:
        label: the most probable class; None if its probability is less than asked for, or for an
            `error`.
        probabilities: calibrated, of every class in the order of the labels; they sum to 1.
        token_count: tokens that the model read, special tokens included; where windows overlap,
            tokens count twice.
        truncated: whether a part of the text was cut off.
        logits: what the network said of every class, before temperature and softmax.
        windows: how many windows of the text the model read; 1 for a text that fits.
        warnings: words for what makes the answer doubtful, such as `not-english`.
        error: why the text has no answer, where its place was kept; then all probabilities are NaN.
    """

    label: str | None
    score: float
    probabilities: dict[str, float]
    token_count: int
    truncated: bool
    logits: Sequence[float] = field(default=(), compare=False)
    windows: int = 1
    warnings: tuple[str, ...] = ()
    error: Exception | None = None

    @classmethod
    def of(
        cls,
        logits: Sequence[float],
        labels: Sequence[str],
        temperature: float,
        *,
        token_count: int,
        truncated: bool,
        windows: int = 1,
    ) -> Prediction:
        """Turns the C logits of one text into calibrated probabilities."""
        # Python's floats make probabilities sum to 1 to the last digit that JSON shows.
        most = max(logits)
        powers = [math.exp((logit - most) / temperature) for logit in logits]
        whole = math.fsum(powers)
        shares = [power / whole for power in powers]
        score = max(shares)
        label = labels[shares.index(score)]
        probabilities = dict(zip(labels, shares, strict=True))
        return cls(label, score, probabilities, token_count, truncated, logits, windows)

    @classmethod
    def of_batch(
        cls,
        logits: NDArray[np.float32],
        encodings: Sequence[Encoding],
        labels: Sequence[str],
        temperature: float,
    ) -> list[Prediction | NotFiniteError]:
        """Turns logits [B, C] into predictions; into an error where they are not finite numbers."""
        rows: list[list[float]] = logits.tolist()
        bad = sum(not math.isfinite(sum(row)) for row in rows)
        return [
            NotFiniteError(bad, len(rows))
            if bad and not math.isfinite(sum(row))
            else cls.of(
                row, labels, temperature, token_count=len(each.input_ids), truncated=each.truncated
            )
            for row, each in zip(rows, encodings, strict=True)
        ]

    @classmethod
    def of_windows(cls, windows: Sequence[Prediction], *, temperature: float) -> Prediction:
        """Joins the predictions of a text's windows: the mean logits, weighted by token count."""
        if len(windows) == 1:
            return windows[0]
        counts = [each.token_count for each in windows]
        columns = zip(*(each.logits for each in windows), strict=True)
        return cls.of(
            [math.fsum(map(mul, column, counts)) / sum(counts) for column in columns],
            list(windows[0].probabilities),
            temperature,
            token_count=sum(counts),
            truncated=any(each.truncated for each in windows),
            windows=len(windows),
        )

    def __repr__(self) -> str:
        if self.error is not None:
            return f"Prediction({self.error!r})"
        more = ", truncated" * self.truncated
        more += f", {self.windows} windows" if self.windows > 1 else ""
        more += "".join(f", {word}" for word in self.warnings)
        return f"Prediction({self.label!r}, {self.score:.4f}, {self.token_count} tokens{more})"

    @property
    def best(self) -> str:
        """The label, or the most probable class without one."""
        return self.label or max(self.probabilities, key=self.probabilities.__getitem__)

    def members(self) -> dict[str, object]:
        """Returns what answers show of it: warnings only where there are any."""
        shown: dict[str, object] = {
            "label": self.label,
            "score": self.score,
            "probabilities": self.probabilities,
            "token_count": self.token_count,
            "truncated": self.truncated,
        }
        return shown | {"warnings": self.warnings} if self.warnings else shown

    def warned(self, *warnings: str) -> Prediction:
        """Returns the prediction with these warnings."""
        return replace(self, warnings=warnings)

    def labelled_from(self, least: float | None) -> Prediction:
        """Returns the prediction; without its label if `least` is more than its score."""
        return self if least is None or self.score >= least else replace(self, label=None)

    def log_odds(self, label: str, *, temperature: float) -> float:
        """Computes log(p / (1 - p)) of the calibrated probability p of a label, from the logits."""
        pairs = zip(self.probabilities, self.logits, strict=True)
        scaled = {name: logit / temperature for name, logit in pairs}
        own, most = scaled.pop(label), max(scaled.values())
        return own - most - math.log(math.fsum(math.exp(each - most) for each in scaled.values()))


@dataclass(frozen=True, slots=True)
class Choice:
    """Labels to choose among, in the model's order, and the temperature of this choice."""

    labels: tuple[str, ...]
    temperature: float

    def narrow(self, prediction: Prediction) -> Prediction:
        """Returns the prediction of a choice among these labels only."""
        logits = dict(zip(prediction.probabilities, prediction.logits, strict=True))
        narrowed = Prediction.of(
            [logits[label] for label in self.labels],
            self.labels,
            self.temperature,
            token_count=prediction.token_count,
            truncated=prediction.truncated,
            windows=prediction.windows,
        )
        narrowed.warnings = prediction.warnings
        return narrowed


@dataclass(frozen=True, slots=True)
class SentenceResult:
    """The prediction of one sentence, and where the sentence stands in its text."""

    span: Span
    prediction: Prediction


@dataclass(slots=True)
class TextResult:
    """The prediction of a text, and of its sentences in order; None if they were not read."""

    prediction: Prediction
    sentences: Sequence[SentenceResult] | None = None

    def among(self, choice: Choice | None) -> TextResult:
        """Returns the result of a choice among some labels; None means all."""
        if choice is None:
            return self
        sentences = self.sentences and [
            SentenceResult(each.span, choice.narrow(each.prediction)) for each in self.sentences
        ]
        return TextResult(choice.narrow(self.prediction), sentences)


@dataclass(frozen=True, slots=True)
class Downsampling:
    """How maps of attention are made smaller.

    Args:
        side: rows and columns at most, S.
        special: whether special tokens have rows and columns.
        reduce: how `model.explain.views.reduce_weights` joins heads and layers.
        words: of the text; None keeps its tokens.
    """

    side: int
    special: bool = True
    reduce: Reduce = "none"
    words: Words | None = None


@dataclass(frozen=True, slots=True)
class Strongest:
    """The largest weight of each query, [L or 1, H or 1, W], and the keys that have it."""

    keys: NDArray[np.int32]
    weights: NDArray[np.float32]


@dataclass(frozen=True, slots=True)
class AttentionOptions:
    """A text and the attention weights to return for it.

    Args:
        layers: layers to return; None means all. The answer has each once, in ascending order.
        heads: heads to return of each layer, by the same rules.
        downsampling: makes the maps smaller; None returns whole ones.
    """

    encoding: Encoding
    layers: Sequence[int] | None = None
    heads: Sequence[int] | None = None
    downsampling: Downsampling | None = None
