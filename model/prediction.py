"""Turns logits into predictions: labels with calibrated probabilities.

Legend: B batch, C classes.
"""

from collections.abc import Sequence
from dataclasses import dataclass

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
    """

    label: str
    score: float
    probabilities: dict[str, float]
    token_count: int
    truncated: bool


def make_predictions(
    logits: NDArray[np.float32],
    encodings: Sequence[Encoding],
    *,
    labels: Sequence[str],
    temperature: float,
) -> list[Prediction]:
    """Turns logits into predictions.

    Args:
        logits: of the texts [B, C].
        encodings: B texts.
        labels: names of the C classes.
        temperature: logits are divided by it before the softmax.

    Raises:
        NotFiniteError: a logit is not a finite number.
    """
    finite = np.isfinite(logits)
    if not finite.all():
        raise NotFiniteError(int((~finite.all(axis=1)).sum()), len(logits))
    # float64 makes probabilities sum to 1 to the last digit that JSON shows.
    scaled = logits.astype(np.float64) / temperature  # [B, C]
    powers = np.exp(scaled - scaled.max(axis=1, keepdims=True))
    rows: list[list[float]] = (powers / powers.sum(axis=1, keepdims=True)).tolist()
    predictions = []
    for row, encoding in zip(rows, encodings, strict=True):
        best = max(range(len(row)), key=row.__getitem__)
        predictions.append(
            Prediction(
                label=labels[best],
                score=row[best],
                probabilities=dict(zip(labels, row, strict=True)),
                token_count=len(encoding.input_ids),
                truncated=encoding.truncated,
            )
        )
    return predictions
