"""Which worker takes what, and with how many threads."""

import pytest

from service.inference.waiting import WorkerKind, Workers, is_light
from service.inference.work_items import LIGHT, Weight

HEAVY = Weight(light=False)
GRADIENT = Weight(light=False, gradient=True)


@pytest.mark.parametrize(
    ("tokens", "others", "light"), [(256, 256, True), (257, 0, False), (1, 257, False)]
)
def test_a_small_request_of_a_client_that_asks_for_little_is_light(
    tokens: int, others: int, *, light: bool
) -> None:
    assert is_light(tokens, others) is light


def test_the_express_worker_takes_light_work_while_heavy_passes_keep_all_cores_busy() -> None:
    workers = Workers(2)
    assert not workers.may_take(WorkerKind.EXPRESS, LIGHT)
    workers.begin(HEAVY, 512, is_all=False)
    assert not workers.may_take(WorkerKind.EXPRESS, LIGHT)  # the other core is free
    workers.begin(LIGHT, 512, is_all=False)
    assert not workers.may_take(WorkerKind.EXPRESS, LIGHT)  # a light pass soon ends
    workers.end(LIGHT)
    workers.begin(HEAVY, 512, is_all=False)
    assert workers.may_take(WorkerKind.EXPRESS, LIGHT)
    assert not workers.may_take(WorkerKind.EXPRESS, HEAVY)
    workers.end(HEAVY)
    assert not workers.may_take(WorkerKind.EXPRESS, LIGHT)


def test_the_relief_worker_takes_predictions_while_gradients_keep_all_cores_busy() -> None:
    workers = Workers(2)
    workers.begin(GRADIENT, 512, is_all=False)
    workers.begin(HEAVY, 512, is_all=False)
    assert not workers.may_take(WorkerKind.RELIEF, HEAVY)
    workers.end(HEAVY)
    workers.begin(GRADIENT, 512, is_all=False)
    assert workers.may_take(WorkerKind.RELIEF, HEAVY)
    assert not workers.may_take(WorkerKind.RELIEF, LIGHT)  # which has a worker of its own
    assert workers.may_take(WorkerKind.EXPRESS, LIGHT)
    assert not workers.may_take(WorkerKind.RELIEF, GRADIENT)
    assert all(workers.may_take(WorkerKind.ORDINARY, weight) for weight in (LIGHT, HEAVY, GRADIENT))


@pytest.mark.parametrize(
    ("tokens", "is_all", "threads"),
    [(300, True, 4), (100, True, 4), (99, True, 1), (300, False, 1)],
)
def test_who_is_alone_has_all_threads(tokens: int, *, is_all: bool, threads: int) -> None:
    workers = Workers(4)
    assert workers.begin(HEAVY, tokens, is_all=is_all) == threads
    assert workers.begin(HEAVY, 300, is_all=True) == 1  # it is not alone any more


@pytest.mark.parametrize(("tokens", "threads"), [(15, 1), (16, 2), (31, 3), (32, 4), (500, 4)])
def test_a_short_text_has_no_more_threads_than_it_has_work_for(tokens: int, threads: int) -> None:
    assert Workers(4, worth_sharing=16).begin(LIGHT, tokens, is_all=True) == threads


@pytest.mark.parametrize(("tokens", "threads"), [(7, 1), (8, 2), (11, 2), (12, 3), (16, 4)])
def test_where_sharing_costs_little_threads_share_shorter_texts(tokens: int, threads: int) -> None:
    assert Workers(4, worth_sharing=8).begin(LIGHT, tokens, is_all=True) == threads
