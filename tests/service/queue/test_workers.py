"""Which worker takes what, and with how many threads."""

import pytest

from service.queue.waiting import WorkerKind, Workers, is_light
from service.queue.work_items import LIGHT, Weight

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
    ("worth_sharing", "tokens", "threads"),
    [
        *((100, 99, 1), (100, 100, 4), (100, 300, 4)),
        *((16, 15, 1), (16, 16, 2), (16, 31, 3), (16, 32, 4), (16, 500, 4)),
        *((8, 7, 1), (8, 8, 2), (8, 11, 2), (8, 12, 3), (8, 16, 4)),
    ],
)
def test_who_is_alone_has_as_many_threads_as_there_is_work_for(
    worth_sharing: int, tokens: int, threads: int
) -> None:
    workers = Workers(4, worth_sharing=worth_sharing)
    assert workers.begin(LIGHT, tokens, is_all=True) == threads
    assert workers.begin(LIGHT, 300, is_all=True) == 1  # it is not alone any more


def test_with_more_texts_waiting_each_pass_has_one_thread() -> None:
    assert Workers(4).begin(HEAVY, 300, is_all=False) == 1
