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
    finite: NDArray[np.bool_] = np.all(np.isfinite(logits), axis=1)  # [B]
    bad = len(logits) - int(finite.sum())
    if bad:
        logits = np.where(finite[:, None], logits, np.float32(0.0))
    # float64 makes probabilities sum to 1 to the last digit that JSON shows.
    scaled = logits.astype(np.float64) / temperature  # [B, C]
    powers = np.exp(scaled - scaled.max(axis=1, keepdims=True))
    rows: list[list[float]] = (powers / powers.sum(axis=1, keepdims=True)).tolist()
    predictions: list[Prediction | NotFiniteError] = []
    for row, encoding, is_finite in zip(rows, encodings, finite.tolist(), strict=True):
        if not is_finite:
            predictions.append(NotFiniteError(bad, len(logits)))
            continue
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
