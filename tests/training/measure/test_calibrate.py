"""One temperature, recovered from logits whose right one is known."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray
from scipy.special import softmax

from tests.matching import exactly
from training.measure.metrics import HIGHEST, LOWEST, fit_temperature, measure


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

    assert fit_temperature(logits, label_ids) == pytest.approx(temperature, rel=0.02)


def test_calibration_lowers_the_calibration_error() -> None:
    logits, label_ids = drawn(3.0)
    before = measure(softmax(logits, axis=1), label_ids)
    after = measure(softmax(logits / fit_temperature(logits, label_ids), axis=1), label_ids)

    assert before.ece > 0.15
    assert after.ece < 0.01
    assert after.accuracy == before.accuracy


def test_two_rows_by_hand() -> None:
    # Right three times of four with a margin of 3: the best probability is 3/4, the best margin
    # ln 3, and the temperature 3 / ln 3.
    logits = np.array([[3.0, 0.0]] * 4)

    assert fit_temperature(logits, np.array([0, 0, 0, 1])) == pytest.approx(3 / np.log(3), rel=1e-5)


def test_float32_logits_and_a_shift_of_all_classes_change_nothing() -> None:
    logits, label_ids = drawn(2.0, rows=500)
    temperature = fit_temperature(logits, label_ids)

    assert fit_temperature(logits.astype(np.float32), label_ids) == pytest.approx(
        temperature, rel=1e-4
    )
    assert fit_temperature(logits + 100.0, label_ids) == pytest.approx(temperature, rel=1e-4)


@given(scale=st.floats(0.01, 1000), seed=st.integers(0, 2**32), rows=st.integers(1, 20))
def test_the_temperature_stays_within_its_bounds(scale: float, seed: int, rows: int) -> None:
    random = np.random.default_rng(seed)
    logits = random.normal(scale=scale, size=(rows, 2))

    assert LOWEST <= fit_temperature(logits, random.integers(2, size=rows)) <= HIGHEST


@pytest.mark.parametrize(
    ("logits", "label_ids"),
    [([[2.0, 1.0], [0.0, 5.0]], [0, 1]), ([[1.0, 1.0], [2.0, 2.0]], [0, 1])],
    ids=["all right", "all alike"],
)
def test_rows_that_cannot_tell_leave_the_temperature_at_1(
    logits: list[list[float]], label_ids: list[int]
) -> None:
    assert fit_temperature(np.array(logits), np.array(label_ids)) == 1.0


def test_answers_that_are_all_wrong_are_made_as_unsure_as_may_be() -> None:
    temperature = fit_temperature(np.array([[9.0, 0.0], [0.0, 9.0]]), np.array([1, 0]))

    assert temperature == pytest.approx(HIGHEST, rel=1e-4)


@pytest.mark.parametrize(
    ("logits", "label_ids", "fault"),
    [
        (
            np.ones((0, 2)),
            np.array([], np.int64),
            "logits must have shape [N, C] and label_ids [N] with N at least 1, got [0, 2] and [0]",
        ),
        (
            np.ones((2, 2)),
            np.array([0]),
            "logits must have shape [N, C] and label_ids [N] with N at least 1, got [2, 2] and [1]",
        ),
        (np.array([[np.inf, 0.0]]), np.array([0]), "logits must be finite numbers"),
    ],
)
def test_what_cannot_be_calibrated(
    logits: NDArray[np.float64], label_ids: NDArray[np.int64], fault: str
) -> None:
    with pytest.raises(ValueError, match=exactly(fault)):
        fit_temperature(logits, label_ids)
