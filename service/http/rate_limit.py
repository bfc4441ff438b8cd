"""Limits what one client may ask in a time: requests, and tokens through the network.

Each client has a bucket that fills at a constant rate and that each request takes from (a token
bucket, as in RFC 2697). Each replica counts for itself.
"""

import time
from collections.abc import Callable, Hashable
from dataclasses import dataclass

from service.errors import RateLimitedError, Refusal
from service.settings import Rate

# Clients beyond these: those who were not seen for longest begin anew with a full bucket.
_MOST_CLIENTS = 10_000


@dataclass(slots=True)
class _Bucket:
    left: float
    seen: float


class RateLimit:
    """At most so many of something in a period, for each client.

    Args:
        rate: the most at once, and the time in which so much comes back.
        unit: what is counted, in the plural.
        refusal: why a request is refused for which too little is left.
        clock: seconds; monotonic.
    """

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
        self._buckets: dict[Hashable, _Bucket] = {}  # who was seen last is last

    def spend(self, client: Hashable, count: int = 1) -> None:
        """Takes from the bucket of a client.

        Args:
            client: who asks.
            count: how much is taken. More than a full bucket is taken from a full one, and leaves
                a debt.

        Raises:
            RateLimitedError: too little is left. Nothing is taken. The error says when there is
                enough.
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
                f"limit is {self._rate}: wait, or ask whoever runs the service for more.",
                refusal=self._refusal,
                retry_after=(needed - bucket.left) / per_second,
            )
        bucket.left -= count
