"""What is counted of answers, for the records of a checkpoint."""

import numpy as np

from model.checkpoint.records import LENGTH_BOUNDS, SCORE_BOUNDS, Baseline, Threshold, Thresholds
from training.measure.counts import count_baseline, count_thresholds
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


def test_answers_are_counted_by_hand() -> None:
    probabilities = np.array([[0.4, 0.3, 0.3], [0.1, 0.1, 0.8], [0.0, 0.05, 0.95]])

    truth = np.array([0, 0, 2])
    found = count_thresholds(probabilities, truth, labels=LABELS, sets=["dev"])

    assert (found.sets, found.rows) == (("dev",), 3)
    assert found.texts == {"negative": 2, "neutral": 0, "positive": 1}
    assert [left.threshold for left in found.by_threshold] == [
        *(0.0, 0.5, 0.6, 0.7, 0.8, 0.9, 0.95, 0.98, 0.99)
    ]
    assert found.by_threshold[0] == Threshold(
        threshold=0.0,
        answers={"negative": 1, "neutral": 0, "positive": 2},
        right={"negative": 1, "neutral": 0, "positive": 1},
    )
    # A score of the threshold itself is left, as with `abstain_below`.
    assert [left.answers["positive"] for left in found.by_threshold] == [2, 2, 2, 2, 2, 1, 1, 0, 0]
    kept = Thresholds.model_validate_json(found.model_dump_json())
    assert kept == found
