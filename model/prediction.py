"""Turns logits into predictions: labels with calibrated probabilities.

Legend: B batch, C classes.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from model.errors import NotFiniteError
from model.tokenizer import Encoding


@dataclass(frozen=True, slots=True)
class Prediction:
    """The answer of the model for one text.

    Args:
        label: the most probable class.
        score: its probability.
        probabilities: calibrated, of every class in the order of the labels; they sum to 1.
        token_count: tokens that the model read, special tokens included.
        truncated: whether a part of the text was cut off.
        _logits: what the network said of every class. Its name begins with an underscore, so that
            orjson does not write it into answers.
    """

    label: str
    score: float
    probabilities: dict[str, float]
    token_count: int
    truncated: bool
    _logits: Sequence[float] = field(default=(), repr=False, compare=False)

    @property
    def logits(self) -> Sequence[float]:
        """What the network said of every class, before temperature and softmax."""
        return self._logits


def make_predictions(
    logits: NDArray[np.float32],
    encodings: Sequence[Encoding],
    *,
    labels: Sequence[str],
    temperature: float,
) -> list[Prediction | NotFiniteError]:
    """Turns logits into predictions; a text that overflowed gets an error in its place.

    Args:
        logits: of the texts [B, C].
        encodings: B texts.
        labels: names of the C classes.
        temperature: logits are divided by it before the softmax.

    Returns:
        For each text its prediction, or the error of logits that are not finite numbers.
    """
    rows: list[list[float]] = logits.tolist()
    bad = sum(not all(map(math.isfinite, row)) for row in rows)
    predictions: list[Prediction | NotFiniteError] = []
    for row, encoding in zip(rows, encodings, strict=True):
        if bad and not all(map(math.isfinite, row)):
            predictions.append(NotFiniteError(bad, len(logits)))
            continue
        # Python's floats make probabilities sum to 1 to the last digit that JSON shows.
        most = max(row)
        powers = [math.exp((logit - most) / temperature) for logit in row]
        whole = math.fsum(powers)
        shares = [power / whole for power in powers]
        score = max(shares)
        predictions.append(
            Prediction(
                label=labels[shares.index(score)],
                score=score,
                probabilities=dict(zip(labels, shares, strict=True)),
                token_count=len(encoding.input_ids),
                truncated=encoding.truncated,
                _logits=row,
            )
        )
    return predictions
