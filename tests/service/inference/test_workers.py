"""Which lane takes what, and with how many threads."""

import pytest

from service.inference.workers import LIGHT, Lane, Lanes, Weight, is_light

HEAVY = Weight(light=False)
GRADIENT = Weight(light=False, gradient=True)


@pytest.mark.parametrize(
    ("tokens", "others", "light"), [(256, 256, True), (257, 0, False), (1, 257, False)]
)
def test_a_small_request_of_a_client_that_asks_for_little_is_light(
    tokens: int, others: int, *, light: bool
) -> None:
    assert is_light(tokens, others) is light


def test_the_express_lane_takes_light_work_while_heavy_passes_keep_all_cores_busy() -> None:
    lanes = Lanes(2)
    assert not lanes.may_take(Lane.EXPRESS, LIGHT)
    lanes.begin(HEAVY, 512, is_all=False)
    assert not lanes.may_take(Lane.EXPRESS, LIGHT)  # the other core is free
    lanes.begin(LIGHT, 512, is_all=False)
    assert not lanes.may_take(Lane.EXPRESS, LIGHT)  # a light pass soon ends
    lanes.end(LIGHT)
    lanes.begin(HEAVY, 512, is_all=False)
    assert lanes.may_take(Lane.EXPRESS, LIGHT)
    assert not lanes.may_take(Lane.EXPRESS, HEAVY)
    lanes.end(HEAVY)
    assert not lanes.may_take(Lane.EXPRESS, LIGHT)


def test_the_relief_lane_takes_predictions_while_gradients_keep_all_cores_busy() -> None:
    lanes = Lanes(2)
    lanes.begin(GRADIENT, 512, is_all=False)
    lanes.begin(HEAVY, 512, is_all=False)
    assert not lanes.may_take(Lane.RELIEF, HEAVY)
    lanes.end(HEAVY)
    lanes.begin(GRADIENT, 512, is_all=False)
    assert lanes.may_take(Lane.RELIEF, HEAVY)
    assert not lanes.may_take(Lane.RELIEF, LIGHT)  # which has a lane of its own
    assert lanes.may_take(Lane.EXPRESS, LIGHT)
    assert not lanes.may_take(Lane.RELIEF, GRADIENT)
    assert all(lanes.may_take(Lane.ORDINARY, weight) for weight in (LIGHT, HEAVY, GRADIENT))


@pytest.mark.parametrize(
    ("tokens", "is_all", "threads"),
    [(300, True, 4), (100, True, 4), (99, True, 1), (300, False, 1)],
)
def test_who_is_alone_has_all_threads(tokens: int, *, is_all: bool, threads: int) -> None:
    lanes = Lanes(4)
    assert lanes.begin(HEAVY, tokens, is_all=is_all) == threads
    assert lanes.begin(HEAVY, 300, is_all=True) == 1  # it is not alone any more


@pytest.mark.parametrize(("tokens", "threads"), [(15, 1), (16, 2), (31, 3), (32, 4), (500, 4)])
def test_a_short_text_has_no_more_threads_than_it_has_work_for(tokens: int, threads: int) -> None:
    assert Lanes(4, worth_sharing=16).begin(LIGHT, tokens, is_all=True) == threads


@pytest.mark.parametrize(("tokens", "threads"), [(7, 1), (8, 2), (11, 2), (12, 3), (16, 4)])
def test_where_sharing_costs_little_threads_share_shorter_texts(tokens: int, threads: int) -> None:
    assert Lanes(4, worth_sharing=8).begin(LIGHT, tokens, is_all=True) == threads
