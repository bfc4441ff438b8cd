"""Figures against values worked out by hand, published, or computed by scikit-learn."""

import math
from dataclasses import asdict

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray
from sklearn import metrics as reference

from tests.matching import exactly
from training.measure.metrics import (
    choose_among,
    expected_calibration_error,
    measure,
    wilson_interval,
)


def test_every_figure_by_hand() -> None:
    probabilities = np.array([[0.9, 0.1], [0.4, 0.6], [0.3, 0.7], [0.8, 0.2]])
    figures = measure(probabilities, np.array([0, 0, 1, 1]))

    # Gaps of the bins that 0.9, 0.6, 0.7 and 0.8 fall into: 0.1, 0.6, 0.3 and 0.8.
    assert asdict(figures) == {
        "rows": 4,
        "accuracy": 0.5,
        "interval": pytest.approx((0.150039, 0.849961), abs=1e-6),
        "macro_f1": 0.5,
        "f1": (0.5, 0.5),
        "log_loss": pytest.approx(-math.log(0.9 * 0.4 * 0.7 * 0.2) / 4),
        "ece": pytest.approx((0.1 + 0.6 + 0.3 + 0.8) / 4),
        "confusion": ((1, 1), (1, 1)),
    }


def test_rows_of_the_confusion_matrix_are_true_classes() -> None:
    figures = measure(np.eye(3)[[2, 2, 1]], np.array([0, 0, 1]))

    assert figures.confusion == ((0, 0, 2), (0, 1, 0), (0, 0, 0))
    assert figures.f1 == (0.0, 1.0, 0.0)


def test_a_class_that_never_occurs_has_no_score() -> None:
    figures = measure(np.array([[0.9, 0.1, 0.0], [0.2, 0.8, 0.0]]), np.array([0, 0]))

    assert figures.f1 == (2 / 3, 0.0, None)
    assert figures.macro_f1 == pytest.approx(1 / 3)


def test_equal_probabilities_give_the_first_class() -> None:
    assert measure(np.array([[0.5, 0.5]]), np.array([0])).accuracy == 1.0


def test_a_right_class_given_nothing_costs_much_but_not_infinity() -> None:
    figures = measure(np.array([[1.0, 0.0]]), np.array([1]))

    assert figures.log_loss == pytest.approx(-math.log(1e-15))
    assert figures.ece == 1.0


@st.composite
def predictions(draw: st.DrawFn) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
    rows, labels = draw(st.integers(1, 40)), draw(st.integers(2, 4))
    random = np.random.default_rng(draw(st.integers(0, 2**32)))
    sharpness = draw(st.sampled_from([0.1, 1.0, 10.0]))
    return random.dirichlet([1 / sharpness] * labels, rows), random.integers(labels, size=rows)


@given(predictions())
def test_the_same_as_scikit_learn(case: tuple[NDArray[np.float64], NDArray[np.int64]]) -> None:
    probabilities, label_ids = case
    figures = measure(probabilities, label_ids)
    predicted = probabilities.argmax(axis=1)
    classes = list(range(probabilities.shape[1]))

    assert figures.accuracy == pytest.approx(reference.accuracy_score(label_ids, predicted))
    expected_confusion = reference.confusion_matrix(label_ids, predicted, labels=classes)
    assert np.array_equal(np.array(figures.confusion), expected_confusion)
    assert figures.macro_f1 == pytest.approx(
        reference.f1_score(label_ids, predicted, average="macro")
    )
    assert figures.log_loss == pytest.approx(
        reference.log_loss(label_ids, probabilities.clip(min=1e-15), labels=classes), rel=1e-6
    )


@pytest.mark.parametrize(
    ("successes", "trials", "interval"),
    [
        # Newcombe 1998, table I, method 3.
        (81, 263, (0.2553, 0.3662)),
        (15, 148, (0.0624, 0.1605)),
        (0, 20, (0.0, 0.1611)),
        (1, 29, (0.0061, 0.1718)),
        (20, 20, (0.8389, 1.0)),
    ],
)
def test_published_wilson_intervals(
    successes: int, trials: int, interval: tuple[float, float]
) -> None:
    low, high = wilson_interval(successes, trials)

    assert (round(low, 4), round(high, 4)) == interval


@given(st.integers(1, 10**6), st.floats(0, 1))
def test_the_interval_holds_the_share(trials: int, share: float) -> None:
    successes = round(share * trials)
    low, high = wilson_interval(successes, trials)

    assert 0.0 <= low <= successes / trials <= high <= 1.0
    mirrored = wilson_interval(trials - successes, trials)
    assert mirrored == pytest.approx((1 - high, 1 - low), abs=1e-9)


def test_calibration_error_by_hand() -> None:
    scores = np.array([0.55, 0.59, 0.92, 0.99])
    correct = np.array([True, False, True, True])

    # 0.55 and 0.59 share the bin up to 9/15, with mean 0.57 and accuracy 1/2; 0.92 is in the bin
    # up to 14/15, 0.99 in the last.
    by_hand = 2 / 4 * 0.07 + 1 / 4 * 0.08 + 1 / 4 * 0.01
    assert expected_calibration_error(scores, correct) == pytest.approx(by_hand)


def test_bins_are_closed_above() -> None:
    correct = np.array([True, False])

    # 0.5 is in the lower bin, where a gap of 0.5 and one of -0.2 nearly cancel out.
    assert expected_calibration_error(np.array([0.5, 0.2]), correct, num_bins=2) == pytest.approx(
        0.15
    )
    # 0 has no bin below it and 1 none above it.
    assert expected_calibration_error(np.array([1.0, 0.0]), correct, num_bins=2) == 0.0


def test_a_choice_among_some_classes() -> None:
    probabilities = np.array([[0.1, 0.5, 0.4], [0.0, 1.0, 0.0]])

    np.testing.assert_allclose(choose_among(probabilities, [2, 0]), [[0.8, 0.2], [0.5, 0.5]])


@pytest.mark.parametrize(
    ("probabilities", "label_ids", "fault"),
    [
        (
            np.ones(2),
            np.array([0, 0]),
            "probabilities must have shape [N, C] and label_ids [N], got [2] and [2]",
        ),
        (
            np.ones((2, 2)),
            np.array([0]),
            "probabilities must have shape [N, C] and label_ids [N], got [2, 2] and [1]",
        ),
        (np.ones((0, 2)), np.array([], np.int64), "nothing can be measured on 0 rows"),
        (np.full((1, 2), np.nan), np.array([0]), "probabilities must be between 0 and 1"),
        (np.full((1, 2), 1.5), np.array([0]), "probabilities must be between 0 and 1"),
        (np.ones((1, 2)), np.array([2]), "label_ids must be between 0 and 1, got 2 to 2"),
        (np.ones((2, 2)), np.array([-1, 1]), "label_ids must be between 0 and 1, got -1 to 1"),
    ],
)
def test_what_cannot_be_measured(
    probabilities: NDArray[np.float64], label_ids: NDArray[np.int64], fault: str
) -> None:
    with pytest.raises(ValueError, match=exactly(fault)):
        measure(probabilities, label_ids)
