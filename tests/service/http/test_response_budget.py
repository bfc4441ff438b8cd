"""The room that large answers share."""

from collections.abc import Callable

import pytest
from starlette.types import Scope

from service.errors import OverloadedError
from service.http.response_budget import SMALL_BYTES, Room, SendingLimit, name_sender
from service.metrics import Metrics

LARGE = SMALL_BYTES + 1


class Holder:
    """Keeps the room of one answer."""

    room: Room | None = None

    @property
    def is_holding(self) -> bool:
        return self.room is not None

    def hold(self, room: Room) -> None:
        self.room = room

    def tell_when_lost(self, call: Callable[[], object] | None) -> None:
        raise AssertionError(call)


def make(most: int) -> tuple[SendingLimit, Metrics]:
    metrics = Metrics([])
    return SendingLimit(most, metrics.sending_bytes, metrics.sending_refused), metrics


def scope_of(holder: Holder) -> Scope:
    scope: Scope = {"type": "http"}
    name_sender(scope, holder)
    return scope


def test_answers_share_the_room() -> None:
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
    assert first.room is not None
    first.room.shrink(LARGE)
    first.room.shrink(2 * LARGE)  # it never grows
    third = Holder()
    limit.reserve(scope_of(third), answer=LARGE, making=LARGE)
    for holder in (first, second, third):
        assert holder.room is not None
        holder.room.release()
        holder.room.release()
    assert metrics.sending_bytes._value.get() == 0
    assert metrics.sending_refused._value.get() == 1


def test_small_answers_take_no_room() -> None:
    limit, metrics = make(1)
    holder = Holder()
    assert limit.reserve(scope_of(holder), answer=SMALL_BYTES, making=10 * LARGE) is None
    assert holder.room is None
    assert metrics.sending_bytes._value.get() == 0


def test_a_connection_has_one_large_answer_at_a_time() -> None:
    limit, _ = make(10 * LARGE)
    holder = Holder()
    limit.reserve(scope_of(holder), answer=LARGE, making=LARGE)
    with pytest.raises(OverloadedError, match=r"^A large answer on this connection has not been"):
        limit.reserve(scope_of(holder), answer=LARGE, making=LARGE)
    limit.reserve(scope_of(holder), answer=SMALL_BYTES, making=SMALL_BYTES)
