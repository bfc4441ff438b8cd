"""Memory that stays flat, that grows, and that was not looked at often enough."""

import pytest

from tests.resilience.memory import Sample, judge_memory


def samples(*memory: float) -> list[Sample]:
    """One sample a second."""
    return [Sample(float(second), size, 20.0, 0.0) for second, size in enumerate(memory)]


def test_warm_up_is_left_out_and_single_moments_do_not_count() -> None:
    warm = [200e6 + 10e6 * second for second in range(20)]
    flat = [400e6, 410e6, 405e6, 900e6, 400e6, 408e6] * 5
    flatness = judge_memory(samples(*warm, *flat), warm_up=20, end=50)
    assert flatness.medians == (406.5e6,) * 5
    assert flatness.is_flat
    assert str(flatness) == "flat: medians of 406, 406, 406, 406, 406 MB, a spread of 0.0 %"


@pytest.mark.parametrize(
    ("last", "is_flat"), [(102.9e6, True), (104e6, False), (97.5e6, True), (96e6, False)]
)
def test_the_last_window_decides_too(last: float, is_flat: bool) -> None:
    flatness = judge_memory(samples(*[100e6] * 20, *[last] * 5), warm_up=0, end=25)
    assert flatness.is_flat is is_flat


def test_a_slow_growth_within_each_window_is_seen() -> None:
    growing = [500e6 * (1 + 0.05 * second / 100) for second in range(100)]
    flatness = judge_memory(samples(*growing), warm_up=0, end=100)
    assert not flatness.is_flat
    assert str(flatness).startswith("NOT FLAT: medians of 502, 507, 512, 517, 522 MB")


@pytest.mark.parametrize(("count", "warm_up"), [(24, 0.0), (25, 1.0), (25, 30.0), (0, 0.0)])
def test_too_few_samples_are_no_proof(count: int, warm_up: float) -> None:
    flatness = judge_memory(samples(*[100e6] * count), warm_up=warm_up, end=25)
    assert not flatness.is_flat
    assert str(flatness).startswith("not judged")
