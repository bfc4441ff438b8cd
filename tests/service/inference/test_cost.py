"""Seconds of a worker for a token."""

import pytest

from service.inference.admission import Cost


def test_nothing_is_known_before_the_first_pass() -> None:
    assert Cost().per_token == 0.0


def test_a_pass_that_could_have_held_more_costs_as_much_as_48_tokens_more() -> None:
    cost = Cost()
    cost.note(500, 1.0, full=True)
    assert cost.per_token == 1 / 500
    small = Cost()
    small.note(2, 0.1, full=False)  # a replica that is rarely asked does not look slow
    assert small.per_token == 1 / 500


def test_the_last_seconds_count_most() -> None:
    cost = Cost()
    for _ in range(100):
        cost.note(1000, 1.0, full=True)
    for _ in range(20):
        cost.note(1000, 2.0, full=True)
    assert cost.per_token == pytest.approx(0.002, rel=0.05)


def test_a_process_that_was_stopped_is_not_held_to_be_slow() -> None:
    cost = Cost()
    for _ in range(100):
        cost.note(100, 0.1, full=True)
    cost.note(100, 60.0, full=True)
    assert cost.per_token < 0.005
    for _ in range(80):
        cost.note(100, 0.1, full=True)
    assert cost.per_token == pytest.approx(0.001, rel=0.1)


def test_a_network_that_has_become_a_hundred_times_slower_is_soon_known() -> None:
    cost = Cost()
    for _ in range(100):
        cost.note(100, 0.1, full=True)
    for _ in range(6):
        cost.note(100, 10.0, full=True)
    assert cost.per_token == pytest.approx(0.1, rel=0.1)
