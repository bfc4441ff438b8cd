"""What is counted of answers, for the records of a checkpoint."""

import numpy as np

from model.checkpoint.records import LENGTH_BOUNDS, SCORE_BOUNDS, Baseline
from training.measure.counts import count_baseline
from training.measure.inference import Probabilities

LABELS = ("negative", "neutral", "positive")


def test_texts_are_counted_by_hand() -> None:
    probabilities = np.array(
        [
            [0.05, 0.0, 0.95],  # a bound belongs to the range below it
            [0.04, 0.0, 0.96],
            [0.999, 0.001, 0.0],
            [0.35, 0.33, 0.32],
        ]
    )

    counts = np.array([8, 9, 512, 600])
    answers = Probabilities(probabilities, counts, truncated=1, unknown_tokens=7)
    found = count_baseline(answers, labels=LABELS, sets=["dev"])

    assert found == Baseline(
        sets=("dev",),
        rows=4,
        score_bounds=SCORE_BOUNDS,
        scores={
            "negative": (1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1),
            "neutral": (0,) * 11,
            "positive": (0, 0, 0, 0, 0, 0, 1, 1, 0, 0, 0),
        },
        length_bounds=LENGTH_BOUNDS,
        lengths=(1, 1, 0, 0, 0, 0, 1, 1),
        truncated=1,
        tokens=1129,
        unknown_tokens=7,
    )
