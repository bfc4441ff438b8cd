"""A day of autoscaling: its shape, the autoscaler's decisions, and what becomes of requests."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchmarks.capacity.curve import Curve
from benchmarks.capacity.day import (
    DAY_SECONDS,
    HOURS,
    Day,
    Moment,
    fixed,
    follow,
    jump,
    shape,
    steady,
)
from benchmarks.capacity.pictures import draw_day
from benchmarks.capacity.scaler import DECISION_SECONDS, Rules, Scaler
from tests.deploy import chart
from tests.resilience import autoscaler

# A replica answers 100 requests a second; within 10 ms as long as it has at most 80.
CURVE = Curve(100.0, [2.0, 80.0, 100.0], [0.002, 0.004, 0.05], [0.005, 0.01, 0.5])


def test_the_shape_has_the_mean_1_and_the_hours_in_their_middles() -> None:
    mean = sum(HOURS) / 24

    assert sum(HOURS) == 40_272
    assert sum(map(shape, range(DAY_SECONDS))) / DAY_SECONDS == pytest.approx(1, abs=1e-4)
    for hour, count in enumerate(HOURS):
        assert shape(3600 * (hour + 0.5)) == pytest.approx(count / mean)
    # The last hour of the day leads to its first.
    assert shape(0) == pytest.approx((HOURS[0] + HOURS[-1]) / 2 / mean)


def test_the_jump_doubles_the_load_for_ten_minutes() -> None:
    begin = 18 * 3600

    assert [jump(begin + second) for second in (-1, 0, 15, 30, 570, 585, 600, 601)] == [
        *(1, 1, 1.5, 2, 2, 1.5, 1, 1),
    ]


@given(st.lists(st.floats(0, 60), min_size=1, max_size=80))
def test_decisions_are_those_of_kubernetes(busy: list[float]) -> None:
    trigger = autoscaler.Trigger("busy", "", 0.7, "AverageValue")
    theirs = autoscaler.Autoscaler(autoscaler.Rules((trigger,), 2, 50, 0.0, 300.0))
    ours = Scaler(Rules(least=2, most=50))
    current = 2
    for step, value in enumerate(busy):
        now = float(step * DECISION_SECONDS)
        decided = ours.decide(now, current, value)
        assert decided == theirs.decide(now, current, {"busy": value})
        current = decided


def test_the_rules_are_those_of_the_chart() -> None:
    rendered = chart.rendered('autoscaling={"kind":"keda"}')
    [scaled] = [each for each in rendered if each["kind"] == "ScaledObject"]
    rules = autoscaler.Rules.read(scaled)

    [busy] = [trigger for trigger in rules.triggers if trigger.name == "busy"]
    assert (busy.target, rules.least, rules.up_seconds, rules.down_seconds) == (
        Rules().busy,
        Rules().least,
        0,
        Rules().down_seconds,
    )


def test_fixed_replicas_that_suffice_answer_all_in_time() -> None:
    day = fixed(CURVE, mean=100, p99=0.02, replicas=2)

    assert day.requests == pytest.approx(100 * DAY_SECONDS, rel=1e-4)
    assert (day.machine_hours, day.most, day.late, day.refused) == (48, 2, 0, 0)


def test_fixed_replicas_that_do_not_suffice_refuse_what_they_cannot_do() -> None:
    day = fixed(CURVE, mean=400, p99=0.02, replicas=2)

    # The load exceeds 200 requests a second at every moment of the day.
    assert min(map(shape, range(DAY_SECONDS))) * 400 > 200
    waits = 0.7 * 10 * 200  # admitted, and not answered at the end of the day
    assert day.refused == pytest.approx(day.requests - 200 * DAY_SECONDS - waits)
    assert day.late == pytest.approx(day.requests - day.refused)


def test_replicas_follow_the_load() -> None:
    rules = Rules()
    day = follow(CURVE, mean=1000, p99=0.02, start=60, rules=rules)

    assert day.refused == 0
    assert day.late == 0
    # 0.7 of each replica are busy at the highest load, a tenth more or less.
    needed = max(map(shape, range(DAY_SECONDS))) * 1000 / 70
    assert needed / 1.1 - 1 < day.most < needed * 1.1 + 1
    assert day.machine_hours < 24 * day.most * 0.85
    assert [moment.seconds for moment in day.moments] == list(
        range(0, DAY_SECONDS, DECISION_SECONDS)
    )


def test_a_jump_hurts_more_the_longer_a_replica_takes_to_start() -> None:
    late = [
        follow(CURVE, mean=1000, p99=0.02, start=start, rules=Rules(), peak=jump).late
        for start in (0, 5, 60, 300)
    ]
    calm = follow(CURVE, mean=1000, p99=0.02, start=300, rules=Rules(), peak=steady)

    assert calm.late < late[3]
    assert 0 < late[0] <= late[1] < late[2] < late[3]


def test_the_picture_of_the_same_day_has_the_same_bytes(tmp_path: Path) -> None:
    day = Day((Moment(0, 10.0, 2), Moment(15, 20.0, 3)), 1.0, 100.0, 0.0, 0.0, 3)
    for name in ("a.svg", "b.svg"):
        draw_day(day, 4, tmp_path / name)

    first = (tmp_path / "a.svg").read_bytes()
    assert first == (tmp_path / "b.svg").read_bytes()
    assert first.startswith(b"<?xml")
    draw_day(day, 5, tmp_path / "c.svg")
    assert (tmp_path / "c.svg").read_bytes() != first
