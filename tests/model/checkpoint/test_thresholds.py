"""The counts by threshold in `headlight.json`: how they are made, checked, written and told."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from model.checkpoint.thresholds import Threshold, Thresholds, count_thresholds, threshold_reports
from tests.builders import tiny_thresholds

LABELS = ("negative", "neutral", "positive")


def test_answers_are_counted_by_hand() -> None:
    probabilities = np.array([[0.4, 0.3, 0.3], [0.1, 0.1, 0.8], [0.0, 0.05, 0.95]])

    found = count_thresholds(probabilities, np.array([0, 0, 2]), labels=LABELS, sets=["dev"])

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
def test_a_record_tells_what_evaluate_prints(rows: list[tuple[list[float], int]]) -> None:
    values = np.array([row for row, _ in rows])
    probabilities = values / values.sum(axis=1, keepdims=True)
    truth = np.array([label for _, label in rows])
    labels = [f"class {number}" for number in range(values.shape[1])]

    found = count_thresholds(probabilities, truth, labels=labels, sets=["dev"])

    kept = Thresholds.model_validate_json(found.model_dump_json())
    assert kept == found
    assert kept.reports() == threshold_reports(probabilities, truth, labels)


def left_at(threshold: float, answers: tuple[int, int], right: tuple[int, int]) -> dict[str, Any]:
    """A threshold as a record has it."""
    names = ("negative", "positive")
    return {
        "threshold": threshold,
        "answers": dict(zip(names, answers, strict=True)),
        "right": dict(zip(names, right, strict=True)),
    }


@pytest.mark.parametrize(
    ("changes", "fault"),
    [
        ({"rows": 999}, "texts count 1000, and rows is 999: must be the same"),
        (
            {"by_threshold": [left_at(0.5, (500, 501), (0, 0))]},
            "answers at 0.5 are 1001, must be at most 1000",
        ),
        (
            {"by_threshold": [left_at(0.5, (500, 500), (401, 0))]},
            "right of negative at 0.5 is 401, must be at most 400",
        ),
        (
            {"by_threshold": [left_at(0.5, (500, 100), (0, 101))]},
            "right of positive at 0.5 is 101, must be at most 100",
        ),
        (
            {"by_threshold": [left_at(0.5, (1, 1), (0, 0)), left_at(0.5, (1, 1), (0, 0))]},
            "the thresholds must ascend",
        ),
        (
            {"by_threshold": [left_at(0.5, (1, 1), (0, 0)), left_at(0.9, (2, 1), (0, 0))]},
            "answers of negative are more at 0.9 than at 0.5: a higher threshold leaves fewer",
        ),
        (
            {"by_threshold": [{"threshold": 0.5, "answers": {"negative": 1}, "right": {}}]},
            "answers at 0.5 are of negative, must be of negative, positive",
        ),
    ],
)
def test_what_cannot_be_true_is_refused(changes: dict[str, Any], fault: str) -> None:
    with pytest.raises(ValidationError) as caught:
        tiny_thresholds(**changes)
    (found,) = caught.value.errors(include_url=False)
    assert found["msg"] == f"Value error, {fault}"
