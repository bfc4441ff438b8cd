"""The figures, thresholds and counts of a file, as people, programs and records have them."""

import numpy as np

from model.checkpoint.records import LENGTH_BOUNDS, SCORE_BOUNDS, Baseline, ThresholdReport
from training.measure.counts import count_baseline, count_thresholds
from training.measure.inference import Probabilities
from training.measure.report import length_reports, threshold_table, to_text

THRESHOLD: ThresholdReport = {
    "threshold": 0.9,
    "rows": 5,
    "share": 5 / 12_345,
    "accuracy": 0.8,
    "precision": {"negative": 0.8, "mixed": None, "positive": None},
    "recall": {"negative": 4 / 10_045, "mixed": None, "positive": 0.0},
}


def test_people_read_a_table() -> None:
    report = {
        "file": "data/reviews.csv",
        "sha256": "ab" * 32,
        "rows": 12_345,
        "truncated": 1_067,
        "accuracy": 0.81234,
        "accuracy_interval": [0.80531, 0.81915],
        "macro_f1": 0.7654321,
        "f1": {"negative": 0.81, "mixed": None, "positive": 0.72},
        "log_loss": 0.45678,
        "ece": 0.01234,
        "ece_uncalibrated": 0.05678,
        "by_length": [
            {"tokens": [1, 16], "rows": 345, "accuracy": 0.9},
            {"tokens": [17, 30], "rows": 12_000, "accuracy": 0.80983},
        ],
        "confusion": [[10_000, 0, 45], [0, 0, 0], [2_272, 0, 28]],
        "by_threshold": [THRESHOLD],
    }

    assert to_text(report) == (
        "data/reviews.csv\n"
        "  rows       12,345 (1,067 truncated)\n"
        "  accuracy   81.23% (95 % interval 80.53% to 81.92%)\n"
        "  macro F1   0.7654 (negative 0.8100, mixed none, positive 0.7200)\n"
        "  log-loss   0.4568\n"
        "  ECE        0.0123 (0.0568 uncalibrated)\n"
        "  by length  1 to 16 tokens 90.00% (345), 17 to 30 tokens 80.98% (12,000)\n"
        "  true \\ predicted  negative  mixed  positive\n"
        "  negative            10,000      0        45\n"
        "  mixed                    0      0         0\n"
        "  positive             2,272      0        28\n"
        "                                          negative              mixed           positive\n"
        "  threshold  answered  accuracy  precision, recall  precision, recall  precision, recall\n"
        "       0.90     0.04%    80.00%    80.00%,   0.04%      none,    none      none,   0.00%\n"
    )


def test_lengths_are_told_apart_where_there_are_texts() -> None:
    token_counts = np.array([1, 16, 17, 70, 300])
    correct = np.array([True, False, True, True, False])
    assert length_reports(token_counts, correct) == [
        {"tokens": [1, 16], "rows": 2, "accuracy": 0.5},
        {"tokens": [17, 32], "rows": 1, "accuracy": 1.0},
        {"tokens": [65, 128], "rows": 1, "accuracy": 1.0},
        {"tokens": [257, 300], "rows": 1, "accuracy": 0.0},
    ]


TWO = ("negative", "positive")
NEUTRAL = ("negative", "neutral", "positive")


def of_positive(*shares: float) -> np.ndarray[tuple[int, int], np.dtype[np.float64]]:
    """Probabilities of two classes [N, 2]."""
    values = np.array(shares)
    return np.stack([1 - values, values], axis=1)


def test_every_threshold_of_two_classes_is_counted_by_hand() -> None:
    # Right: 0.95, 0.75, 0.02 and 0.45; wrong: 0.9 and 0.25.
    probabilities = of_positive(0.95, 0.75, 0.9, 0.02, 0.25, 0.45)
    reports = count_thresholds(
        probabilities, np.array([1, 1, 0, 0, 1, 0]), labels=TWO, sets=["a"]
    ).reports()

    assert [report["threshold"] for report in reports] == [
        *(0.5, 0.6, 0.7, 0.8, 0.9, 0.95, 0.98, 0.99)
    ]
    assert [report["rows"] for report in reports] == [6, 5, 5, 3, 3, 2, 1, 0]
    assert reports[0] == {
        "threshold": 0.5,
        "rows": 6,
        "share": 1.0,
        "accuracy": 4 / 6,
        "precision": {"negative": 2 / 3, "positive": 2 / 3},
        "recall": {"negative": 2 / 3, "positive": 2 / 3},
    }
    # 0.9 itself is answered; the text of 0.45 is not, and counts as missed.
    assert reports[4] == {
        "threshold": 0.9,
        "rows": 3,
        "share": 0.5,
        "accuracy": 2 / 3,
        "precision": {"negative": 1.0, "positive": 1 / 2},
        "recall": {"negative": 1 / 3, "positive": 1 / 3},
    }
    assert reports[6]["precision"] == {"negative": 1.0, "positive": None}
    assert (reports[7]["rows"], reports[7]["share"], reports[7]["accuracy"]) == (0, 0.0, None)
    assert reports[7]["recall"] == {"negative": 0.0, "positive": 0.0}


def test_more_classes_begin_with_zero_and_may_be_without_a_text() -> None:
    probabilities = np.array([[0.4, 0.3, 0.3], [0.1, 0.1, 0.8]])
    reports = count_thresholds(
        probabilities, np.array([0, 0]), labels=NEUTRAL, sets=["a"]
    ).reports()
    assert [(report["threshold"], report["rows"]) for report in reports[:5]] == [
        *((0.0, 2), (0.5, 1), (0.6, 1), (0.7, 1), (0.8, 1))
    ]
    assert reports[0]["accuracy"] == 0.5
    assert reports[0]["precision"] == {"negative": 1.0, "neutral": None, "positive": 0.0}
    assert reports[0]["recall"] == {"negative": 0.5, "neutral": None, "positive": None}
    assert reports[1]["recall"] == {"negative": 0.0, "neutral": None, "positive": None}


def test_a_long_name_widens_its_column() -> None:
    labels = ("negative", "of several opinions")
    table = threshold_table(
        count_thresholds(of_positive(0.9), np.array([1]), labels=labels, sets=["a"]).reports()
    )
    lines = table.splitlines()
    assert len({len(line) for line in lines}) == 1
    assert lines[0].endswith("  of several opinions")


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
