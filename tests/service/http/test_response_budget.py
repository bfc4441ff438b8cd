"""The bytes that large answers share."""

from collections.abc import Callable

import pytest
from starlette.types import Scope

from service.errors import OverloadedError
from service.http.response_budget import SENDER, SMALL_BYTES, Reservation, ResponseBudget
from service.metrics import Metrics

LARGE = SMALL_BYTES + 1


class Holder:
    reservation: Reservation | None = None

    @property
    def is_holding(self) -> bool:
        return self.reservation is not None

    def hold(self, reservation: Reservation) -> None:
        self.reservation = reservation

    def call_when_lost(self, call: Callable[[], object] | None) -> None:
        raise AssertionError(call)


def make(most: int) -> tuple[ResponseBudget, Metrics]:
    metrics = Metrics([])
    return ResponseBudget(most, metrics.sending_bytes), metrics


def scope_of(holder: Holder) -> Scope:
    scope: Scope = {"type": "http"}
    scope[SENDER] = holder
    return scope


def test_answers_share_the_budget() -> None:
    limit, metrics = make(3 * LARGE)
    first, second = Holder(), Holder()
    limit.reserve(scope_of(first), answer=LARGE, making=2 * LARGE)
    limit.reserve(scope_of(second), answer=LARGE, making=LARGE)
    assert metrics.sending_bytes._value.get() == 3 * LARGE
    with pytest.raises(OverloadedError) as caught:
        limit.reserve(scope_of(Holder()), answer=LARGE, making=LARGE)
    assert caught.value.detail == (
        "The answer takes up to 65537 bytes, and large answers that are not read yet take 196611 "
        "of 196611 bytes: try again later, or ask for fewer layers or heads."
    )
    assert caught.value.retry_after == 5
    assert first.reservation is not None
    first.reservation.shrink(LARGE)
    first.reservation.shrink(2 * LARGE)  # it never grows
    third = Holder()
    limit.reserve(scope_of(third), answer=LARGE, making=LARGE)
    for holder in (first, second, third):
        assert holder.reservation is not None
        holder.reservation.release()
        holder.reservation.release()
    assert metrics.sending_bytes._value.get() == 0


def test_small_answers_reserve_nothing() -> None:
    limit, metrics = make(1)
    holder = Holder()
    assert limit.reserve(scope_of(holder), answer=SMALL_BYTES, making=10 * LARGE) is None
    assert holder.reservation is None
    assert metrics.sending_bytes._value.get() == 0


def test_without_a_connection_that_would_release_it_nothing_is_reserved() -> None:
    limit, metrics = make(10 * LARGE)
    assert limit.reserve({"type": "http"}, answer=LARGE, making=LARGE) is None
    assert metrics.sending_bytes._value.get() == 0


def test_a_connection_has_one_large_answer_at_a_time() -> None:
    limit, _ = make(10 * LARGE)
    holder = Holder()
    limit.reserve(scope_of(holder), answer=LARGE, making=LARGE)
    with pytest.raises(OverloadedError, match=r"^The last large answer on this connection"):
        limit.reserve(scope_of(holder), answer=LARGE, making=LARGE)
    limit.reserve(scope_of(holder), answer=SMALL_BYTES, making=SMALL_BYTES)
