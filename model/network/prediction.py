"""Turns logits into predictions: labels with calibrated probabilities.

Legend: B batch, C classes.
"""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

from model.errors import NotFiniteError
from model.network.labels import POLES
from model.tokenization.tokenizer import Encoding


@dataclass(frozen=True, slots=True, repr=False)
class Prediction:
    """The answer of the model for one text.

    Args:
        probabilities: calibrated, of every class in the order of the labels; they sum to 1.
        token_count: tokens that the model read, special tokens included; where windows overlap,
            tokens count twice.
        truncated: whether a part of the text was cut off.
        _logits: kept out of answers by the underscore, which orjson leaves out.
        _windows: how many windows of the text the model read.
        _warnings: words for what makes the answer doubtful; answers have them only where there are
            any.
    """

    label: str
    score: float
    probabilities: dict[str, float]
    token_count: int
    truncated: bool
    _logits: Sequence[float] = field(default=(), compare=False)
    _windows: int = 1
    _warnings: tuple[str, ...] = ()

    def __repr__(self) -> str:
        more = ", truncated" * self.truncated
        more += f", {self.windows} windows" if self.windows > 1 else ""
        more += "".join(f", {word}" for word in self.warnings)
        return f"Prediction({self.label!r}, {self.score:.4f}, {self.token_count} tokens{more})"

    @property
    def windows(self) -> int:
        """How many windows of the text the model read; 1 for a text that fits."""
        return self._windows

    @property
    def logits(self) -> Sequence[float]:
        """What the network said of every class, before temperature and softmax."""
        return self._logits

    @property
    def warnings(self) -> tuple[str, ...]:
        """Words for what makes the answer doubtful, such as `not-english`."""
        return self._warnings

    def warned(self, *warnings: str) -> "Prediction":
        """Returns the prediction with these warnings."""
        return replace(self, _warnings=warnings)


@dataclass(frozen=True, slots=True)
class Choice:
    """Labels to choose among, in the model's order, and the temperature of this choice."""

    labels: tuple[str, ...]
    temperature: float

    def narrow(self, prediction: Prediction) -> Prediction:
        """Returns the prediction of a choice among these labels only."""
        logits = dict(zip(prediction.probabilities, prediction.logits, strict=True))
        return _predict(
            [logits[label] for label in self.labels],
            self.labels,
            self.temperature,
            token_count=prediction.token_count,
            truncated=prediction.truncated,
            windows=prediction.windows,
        ).warned(*prediction.warnings)


def choose_among(
    wanted: Iterable[str],
    labels: Sequence[str],
    temperature: float,
    pair_temperature: float | None = None,
) -> Choice:
    """Makes a choice among two or more of a model's labels.

    Args:
        pair_temperature: of a choice between `negative` and `positive`; None: `temperature`.

    Raises:
        ValueError: the model has no such label, or they are fewer than two or repeated.
    """
    given = list(wanted)
    if len(set(given)) < max(2, len(given)) or not set(given) <= set(labels):
        raise ValueError(choice_fault(labels))
    chosen = tuple(label for label in labels if label in given)
    if pair_temperature is not None and set(chosen) == set(POLES):
        temperature = pair_temperature
    return Choice(chosen, temperature)


def choice_fault(labels: Iterable[str]) -> str:
    """Says what a choice among some of a model's labels must name."""
    return f"give two or more different ones of the model's labels: {', '.join(labels)}"


def make_predictions(
    logits: NDArray[np.float32],
    encodings: Sequence[Encoding],
    *,
    labels: Sequence[str],
    temperature: float,
) -> list[Prediction | NotFiniteError]:
    """Turns logits [B, C] into predictions, or into an error where they are not finite numbers."""
    rows: list[list[float]] = logits.tolist()
    bad = sum(not all(map(math.isfinite, row)) for row in rows)
    predictions: list[Prediction | NotFiniteError] = []
    for row, encoding in zip(rows, encodings, strict=True):
        if bad and not all(map(math.isfinite, row)):
            predictions.append(NotFiniteError(bad, len(logits)))
            continue
        predictions.append(
            _predict(
                row,
                labels,
                temperature,
                token_count=len(encoding.input_ids),
                truncated=encoding.truncated,
            )
        )
    return predictions


def join_predictions(windows: Sequence[Prediction], *, temperature: float) -> Prediction:
    """Joins the predictions of a text's windows: the mean logits, weighted by token count."""
    if len(windows) == 1:
        return windows[0]
    tokens = sum(each.token_count for each in windows)
    columns = zip(*(each.logits for each in windows), strict=True)
    logits = [
        math.fsum(logit * each.token_count for logit, each in zip(column, windows, strict=True))
        / tokens
        for column in columns
    ]
    return _predict(
        logits,
        list(windows[0].probabilities),
        temperature,
        token_count=tokens,
        truncated=any(each.truncated for each in windows),
        windows=len(windows),
    )


def log_odds(prediction: Prediction, label: str, *, temperature: float) -> float:
    """Computes log(p / (1 - p)) of the calibrated probability p of a label, from the logits."""
    pairs = zip(prediction.probabilities, prediction.logits, strict=True)
    scaled = {name: logit / temperature for name, logit in pairs}
    own, most = scaled.pop(label), max(scaled.values())
    return own - most - math.log(math.fsum(math.exp(other - most) for other in scaled.values()))


def _predict(
    logits: Sequence[float],
    labels: Sequence[str],
    temperature: float,
    *,
    token_count: int,
    truncated: bool,
    windows: int = 1,
) -> Prediction:
    # Python's floats make probabilities sum to 1 to the last digit that JSON shows.
    most = max(logits)
    powers = [math.exp((logit - most) / temperature) for logit in logits]
    whole = math.fsum(powers)
    shares = [power / whole for power in powers]
    score = max(shares)
    return Prediction(
        label=labels[shares.index(score)],
        score=score,
        probabilities=dict(zip(labels, shares, strict=True)),
        token_count=token_count,
        truncated=truncated,
        _logits=logits,
        _windows=windows,
    )
