"""Figures and temperatures against values worked out by hand or published."""

import math
from dataclasses import asdict

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.special import softmax

from training.measure import metrics


def test_every_figure_by_hand() -> None:
    probabilities = np.array([[0.9, 0.1], [0.4, 0.6], [0.3, 0.7], [0.8, 0.2]])
    figures = metrics.measure(probabilities, np.array([0, 0, 1, 1]))
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
    figures = metrics.measure(np.eye(3)[[2, 2, 1]], np.array([0, 0, 1]))
    assert figures.confusion == ((0, 0, 2), (0, 1, 0), (0, 0, 0))
    assert figures.f1 == (0.0, 1.0, 0.0)


def test_a_class_that_never_occurs_has_no_score() -> None:
    figures = metrics.measure(np.array([[0.9, 0.1, 0.0], [0.2, 0.8, 0.0]]), np.array([0, 0]))
    assert figures.f1 == (2 / 3, 0.0, None)
    assert figures.macro_f1 == pytest.approx(1 / 3)


def test_a_right_class_given_nothing_costs_much_but_not_infinity() -> None:
    figures = metrics.measure(np.array([[1.0, 0.0]]), np.array([1]))
    assert figures.log_loss == pytest.approx(-math.log(1e-15))
    assert figures.ece == 1.0


def test_calibration_error_by_hand() -> None:
    scores = np.array([0.55, 0.59, 0.92, 0.99])
    correct = np.array([True, False, True, True])
    # 0.55 and 0.59 share the bin up to 9/15, with mean 0.57 and accuracy 1/2; 0.92 is in the bin
    # up to 14/15, 0.99 in the last.
    by_hand = 2 / 4 * 0.07 + 1 / 4 * 0.08 + 1 / 4 * 0.01
    assert metrics.expected_calibration_error(scores, correct) == pytest.approx(by_hand)


def test_bins_are_closed_above() -> None:
    correct = np.array([True, False])
    # 0.5 is in the lower bin, where a gap of 0.5 and one of -0.2 nearly cancel out.
    found = metrics.expected_calibration_error(np.array([0.5, 0.2]), correct, num_bins=2)
    assert found == pytest.approx(0.15)
    # 0 has no bin below it and 1 none above it.
    assert metrics.expected_calibration_error(np.array([1.0, 0.0]), correct, num_bins=2) == 0.0


def test_a_choice_among_some_classes() -> None:
    probabilities = np.array([[0.1, 0.5, 0.4], [0.0, 1.0, 0.0]])
    np.testing.assert_allclose(
        metrics.choose_among(probabilities, [2, 0]), [[0.8, 0.2], [0.5, 0.5]]
    )


def drawn(
    temperature: float, *, rows: int = 40_000
) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
    """Logits that are right once divided by the temperature: labels are drawn from them so."""
    random = np.random.default_rng(0)
    sound = random.normal(scale=2.0, size=(rows, 3))  # [N, C]
    thresholds = softmax(sound, axis=1).cumsum(axis=1)  # [N, C]
    label_ids = (random.random((rows, 1)) > thresholds[:, :-1]).sum(axis=1)  # [N]
    return sound * temperature, label_ids


@pytest.mark.parametrize("temperature", [0.25, 1.0, 1.7, 8.0])
def test_a_known_temperature_is_recovered(temperature: float) -> None:
    logits, label_ids = drawn(temperature)
    assert metrics.fit_temperature(logits, label_ids) == pytest.approx(temperature, rel=0.02)


@pytest.mark.parametrize(
    ("logits", "label_ids"),
    [([[2.0, 1.0], [0.0, 5.0]], [0, 1]), ([[1.0, 1.0], [2.0, 2.0]], [0, 1])],
    ids=["all right", "all alike"],
)
def test_rows_that_cannot_tell_leave_the_temperature_at_1(
    logits: list[list[float]], label_ids: list[int]
) -> None:
    assert metrics.fit_temperature(np.array(logits), np.array(label_ids)) == 1.0


def test_answers_that_are_all_wrong_are_made_as_unsure_as_may_be() -> None:
    temperature = metrics.fit_temperature(np.array([[9.0, 0.0], [0.0, 9.0]]), np.array([1, 0]))
    assert temperature == pytest.approx(metrics.HIGHEST, rel=1e-4)
