"""What a client may ask in a time."""

import pytest

from service.errors import RateLimitedError, Refusal
from service.http.rate_limit import RateLimit
from service.settings import Rate
from tests.matching import exactly


def test_all_may_be_used_at_once_and_comes_back_at_a_constant_rate() -> None:
    now = 1000.0
    limit = RateLimit(Rate(60, "minute"), "requests", refusal=Refusal.RATE_LIMIT, clock=lambda: now)
    for _ in range(60):
        limit.spend("a")
    message = (
        "1 requests are wanted and 0 are left; the limit is 60/minute: wait, or ask the operator "
        "of the service for more."
    )
    with pytest.raises(RateLimitedError, match=exactly(message)) as caught:
        limit.spend("a")
    assert caught.value.retry_after == 1
    assert caught.value.refusal is Refusal.RATE_LIMIT
    limit.spend("b")
    now += 0.9
    with pytest.raises(RateLimitedError):
        limit.spend("a")
    now += 0.1
    limit.spend("a")
    now += 10_000
    for _ in range(60):
        limit.spend("a")
    with pytest.raises(RateLimitedError):
        limit.spend("a")


def test_a_request_for_more_than_all_leaves_a_debt() -> None:
    now = 1000.0
    limit = RateLimit(Rate(100, "second"), "tokens", refusal=Refusal.QUOTA, clock=lambda: now)
    limit.spend("a", 300)
    now += 2.0
    with pytest.raises(RateLimitedError) as caught:
        limit.spend("a", 50)
    assert caught.value.retry_after == 1
    now += 0.5
    limit.spend("a", 50)


def test_only_so_many_clients_are_remembered() -> None:
    limit = RateLimit(Rate(1, "day"), "requests", refusal=Refusal.RATE_LIMIT, clock=lambda: 0.0)
    for number in range(10_001):
        limit.spend(number)
    limit.spend(0)  # was seen first, and is forgotten
    with pytest.raises(RateLimitedError):
        limit.spend(10_000)
