"""Limits the requests, and the tokens through the network, of one client in a time.

Each client has a bucket that fills at a constant rate, and each request takes from it (a token
bucket, as in RFC 2697). Each replica counts for itself.
"""

import time
from collections.abc import Callable, Hashable
from dataclasses import dataclass

from service.errors import RateLimitedError, Refusal
from service.settings import Rate

# Clients beyond these: those not seen for longest start again with a full bucket.
_MOST_CLIENTS = 10_000


@dataclass(slots=True)
class _Bucket:
    left: float
    seen: float


class RateLimit:
    """Limits each client to a count in a period; `unit` names what is counted, in the plural."""

    def __init__(
        self,
        rate: Rate,
        unit: str,
        *,
        refusal: Refusal,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._rate = rate
        self._unit = unit
        self._refusal = refusal
        self._clock = clock
        self._buckets: dict[Hashable, _Bucket] = {}  # the client seen last is last

    def spend(self, client: Hashable, count: int = 1) -> None:
        """Takes from the bucket of a client; a count above the limit leaves a debt.

        Raises:
            RateLimitedError: too little is left, and nothing was taken; says when there is enough.
        """
        now = self._clock()
        most, per_second = self._rate.count, self._rate.count / self._rate.seconds
        bucket = self._buckets.pop(client, None) or _Bucket(most, now)
        self._buckets[client] = bucket
        bucket.left = min(most, bucket.left + (now - bucket.seen) * per_second)
        bucket.seen = now
        if len(self._buckets) > _MOST_CLIENTS:
            del self._buckets[next(iter(self._buckets))]
        needed = min(count, most)
        if bucket.left < needed:
            raise RateLimitedError(
                f"{count} {self._unit} are wanted and {max(int(bucket.left), 0)} are left; the "
                f"limit is {self._rate}: wait, or ask the operator of the service for more.",
                refusal=self._refusal,
                retry_after=(needed - bucket.left) / per_second,
            )
        bucket.left -= count
