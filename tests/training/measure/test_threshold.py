"""What a threshold leaves of the answers, on probabilities that are made by hand."""

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from model.checkpoint.thresholds import threshold_reports
from training.measure.metrics import measure
from training.measure.report import threshold_table

TWO = ("negative", "positive")
THREE = ("negative", "neutral", "positive")


def of_positive(*shares: float) -> np.ndarray[tuple[int, int], np.dtype[np.float64]]:
    """Probabilities of two classes [N, 2]."""
    values = np.array(shares)
    return np.stack([1 - values, values], axis=1)


def test_every_threshold_of_two_classes_is_counted_by_hand() -> None:
    # Right: 0.95, 0.75, 0.02 and 0.45; wrong: 0.9 and 0.25.
    probabilities = of_positive(0.95, 0.75, 0.9, 0.02, 0.25, 0.45)
    reports = threshold_reports(probabilities, np.array([1, 1, 0, 0, 1, 0]), TWO)

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
    assert reports[7] == {
        "threshold": 0.99,
        "rows": 0,
        "share": 0.0,
        "accuracy": None,
        "precision": {"negative": None, "positive": None},
        "recall": {"negative": 0.0, "positive": 0.0},
    }


def test_more_classes_begin_with_zero_and_may_be_without_a_text() -> None:
    probabilities = np.array([[0.4, 0.3, 0.3], [0.1, 0.1, 0.8]])
    reports = threshold_reports(probabilities, np.array([0, 0]), THREE)

    assert [(report["threshold"], report["rows"]) for report in reports[:5]] == [
        *((0.0, 2), (0.5, 1), (0.6, 1), (0.7, 1), (0.8, 1))
    ]
    assert reports[0]["accuracy"] == 0.5
    assert reports[0]["precision"] == {"negative": 1.0, "neutral": None, "positive": 0.0}
    assert reports[0]["recall"] == {"negative": 0.5, "neutral": None, "positive": None}
    assert reports[1]["recall"] == {"negative": 0.0, "neutral": None, "positive": None}


def test_people_read_a_line_for_each_threshold() -> None:
    reports = threshold_reports(of_positive(0.95, 0.75, 0.9, 0.02), np.array([1, 1, 0, 0]), TWO)

    assert threshold_table(reports).splitlines() == [
        "                                        negative           positive",
        "threshold  answered  accuracy  precision, recall  precision, recall",
        "     0.50   100.00%    75.00%   100.00%,  50.00%    66.67%, 100.00%",
        "     0.60   100.00%    75.00%   100.00%,  50.00%    66.67%, 100.00%",
        "     0.70   100.00%    75.00%   100.00%,  50.00%    66.67%, 100.00%",
        "     0.80    75.00%    66.67%   100.00%,  50.00%    50.00%,  50.00%",
        "     0.90    75.00%    66.67%   100.00%,  50.00%    50.00%,  50.00%",
        "     0.95    50.00%   100.00%   100.00%,  50.00%   100.00%,  50.00%",
        "     0.98    25.00%   100.00%   100.00%,  50.00%      none,   0.00%",
        "     0.99     0.00%      none      none,   0.00%      none,   0.00%",
    ]


def test_a_long_name_widens_its_column() -> None:
    labels = ("negative", "of several opinions")
    table = threshold_table(threshold_reports(of_positive(0.9), np.array([1]), labels))
    lines = table.splitlines()

    assert len({len(line) for line in lines}) == 1
    assert lines[0].endswith("  of several opinions")


@given(
    st.integers(2, 5).flatmap(
        lambda classes: st.lists(
            st.tuples(
                st.lists(st.floats(0.01, 1.0), min_size=classes, max_size=classes),
                st.integers(0, classes - 1),
            ),
            min_size=1,
            max_size=30,
        )
    )
)
def test_thresholds_agree_with_the_other_figures(rows: list[tuple[list[float], int]]) -> None:
    values = np.array([row for row, _ in rows])
    probabilities = values / values.sum(axis=1, keepdims=True)
    truth = np.array([label for _, label in rows])
    labels = [f"class {number}" for number in range(values.shape[1])]
    reports = threshold_reports(probabilities, truth, labels)
    figures = measure(probabilities, truth)

    # The lowest threshold answers all, so it has the accuracy and the F1 of the file.
    assert reports[0]["rows"] == len(rows)
    assert reports[0]["accuracy"] == pytest.approx(figures.accuracy)
    for label, f1 in zip(labels, figures.f1, strict=True):
        precision, recall = reports[0]["precision"][label], reports[0]["recall"][label]
        if precision and recall:
            assert 2 * precision * recall / (precision + recall) == pytest.approx(f1)
    # A higher threshold never answers more, nor finds more of a class.
    for lower, higher in itertools.pairwise(reports):
        assert higher["rows"] <= lower["rows"]
        for label in labels:
            assert (higher["recall"][label] or 0.0) <= (lower["recall"][label] or 0.0)
