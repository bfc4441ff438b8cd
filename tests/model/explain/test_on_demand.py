"""What is made when it is needed, and dropped some seconds after its last use."""

import threading
from itertools import count
from typing import Any

import pytest

from model.explain.on_demand import OnDemand


def wait_until_dropped(demand: OnDemand[Any]) -> None:
    timer = demand._timer
    if timer is not None:
        timer.join(30)
    assert demand._made is None


def test_it_goes_after_its_last_use() -> None:
    made = count()
    demand = OnDemand(lambda: [next(made)], linger_seconds=0.0)
    assert demand._made is None
    with demand.use() as first:
        with demand.use() as second:
            assert second is first == [0]
        assert demand._made is first
    wait_until_dropped(demand)
    with demand.use() as third:
        assert third == [1]


def test_it_stays_where_it_should() -> None:
    demand = OnDemand[list[object]](list, linger_seconds=None)
    with demand.use() as first:
        pass
    assert demand._timer is None
    with demand.use() as second:
        assert second is first


def test_one_that_cannot_be_made_is_tried_again() -> None:
    answers = iter([ValueError, list])

    def make() -> object:
        made = next(answers)()
        if isinstance(made, ValueError):
            raise made
        return made

    demand = OnDemand(make, linger_seconds=0.0)
    with pytest.raises(ValueError, match=r"^$"), demand.use():
        pass
    with demand.use() as found:
        assert found == []
    wait_until_dropped(demand)


def test_threads_get_the_same_until_none_uses_it() -> None:
    demand = OnDemand[list[object]](list, linger_seconds=0.0)
    together = threading.Barrier(4)
    lent: list[object] = []

    def borrow() -> None:
        for _ in range(50):
            with demand.use() as found:
                assert found == []
        together.wait()
        with demand.use() as found:
            lent.append(found)
            together.wait()

    threads = [threading.Thread(target=borrow) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert len(lent) == 4
    assert len(set(map(id, lent))) == 1
    wait_until_dropped(demand)
