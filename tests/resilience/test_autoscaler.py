"""The formula, the tolerance, the windows and the limits of the autoscaler."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.deploy import chart
from tests.resilience.autoscaler import Autoscaler, Rules, Trigger

BACKLOG = Trigger("backlog", "sum(x)", 0.5, "AverageValue")
PLAIN = Trigger("plain", "avg(x)", 2.0, "Value")


def rules(*, least: int = 1, most: int = 10, up: float = 0.0, down: float = 60.0) -> Rules:
    return Rules((BACKLOG,), least, most, up, down)


@pytest.mark.parametrize(
    ("current", "measured", "desired"),
    [
        (1, 0.5, 1),
        (1, 0.55, 1),  # within a tenth
        (1, 0.56, 2),
        (1, 0.45, 1),
        (2, 0.8, 2),  # a fifth less, rounded up
        (2, 0.4, 1),
        (3, 1.65, 3),
        (3, 1.66, 4),
        (4, 0.0, 0),
        (2, 5.0, 10),
    ],
)
def test_the_formula(current: int, measured: float, desired: int) -> None:
    assert BACKLOG.desired(current, measured) == desired


def test_a_value_is_not_divided_by_the_replicas() -> None:
    assert [PLAIN.desired(3, value) for value in (2.0, 2.2, 3.0, 1.0)] == [3, 3, 5, 2]


@given(st.integers(1, 50), st.floats(0, 100))
def test_the_formula_brings_the_target_about(current: int, measured: float) -> None:
    desired = BACKLOG.desired(current, measured)
    if desired != current:
        assert desired == math.ceil(round(measured / 0.5, 9))
        assert measured / max(desired, 1) <= 0.5 * (1 + 1e-6) or desired == 0
    else:
        assert measured / current <= 0.5 * 1.1 + 1e-9


def test_the_trigger_that_asks_for_most_counts() -> None:
    scaler = Autoscaler(Rules((BACKLOG, PLAIN), 1, 10, 0, 0))
    assert scaler.decide(0, 2, {"backlog": 2.0, "plain": 3.0}) == 4
    assert scaler.decide(1, 2, {"backlog": 0.0, "plain": 3.0}) == 3
    assert scaler.decide(2, 2, {"backlog": 0.0}) == 1
    assert scaler.decide(3, 2, {}) == 2


def test_the_largest_number_within_the_window_holds_replicas() -> None:
    scaler = Autoscaler(rules(down=60))
    assert scaler.decide(0, 1, {"backlog": 2.0}) == 4
    assert scaler.decide(30, 4, {"backlog": 0.9}) == 4
    assert scaler.decide(60, 4, {"backlog": 0.9}) == 4
    assert scaler.decide(61, 4, {"backlog": 0.9}) == 2  # what was asked for at 30 and 60
    assert scaler.decide(122, 2, {"backlog": 0.0}) == 1


def test_the_smallest_number_within_the_window_delays_more() -> None:
    scaler = Autoscaler(rules(up=10))
    assert scaler.decide(0, 1, {"backlog": 0.0}) == 1
    assert scaler.decide(5, 1, {"backlog": 2.0}) == 1
    assert scaler.decide(11, 1, {"backlog": 1.5}) == 3


def test_replicas_are_added_in_steps() -> None:
    scaler = Autoscaler(rules(most=100))
    assert scaler.decide(0, 1, {"backlog": 50.0}) == 5
    assert scaler.decide(5, 5, {"backlog": 50.0}) == 5  # within the same fifteen seconds
    assert scaler.decide(16, 5, {"backlog": 50.0}) == 10
    assert scaler.decide(40, 10, {"backlog": 50.0}) == 20


def test_the_limits_hold() -> None:
    scaler = Autoscaler(rules(least=2, most=3, down=0))
    assert scaler.decide(0, 2, {"backlog": 9.0}) == 3
    assert scaler.decide(1, 3, {"backlog": 0.0}) == 2


@chart.needs_helm
def test_rules_are_those_of_the_chart() -> None:
    manifests = chart.rendered('autoscaling={"kind":"keda","minReplicas":3,"maxReplicas":7}')
    read = Rules.read(chart.one(manifests, "ScaledObject"))
    selector = '{namespace="demo",service="headlight"}'
    assert read == Rules(
        (
            Trigger("backlog", f"sum(headlight_backlog_seconds{selector})", 0.5, "AverageValue"),
            Trigger(
                "busy",
                f"sum(rate(headlight_forward_seconds_sum{selector}[1m])) / 1",
                0.7,
                "AverageValue",
            ),
        ),
        3,
        7,
        0,
        300,
    )
