"""Estimates how many seconds a lane needs for a token, from passes that ended.

Each path through the network has its own estimate: a token of an integral costs many times what one
of a prediction does.
"""

import math

# The fixed cost of a pass that is not full, in tokens.
_PASS_TOKENS = 48
# Passes count for about so many seconds.
_HORIZON_SECONDS = 2.0
# A pass of more than the horizon counts for at most so many times what was expected: the process
# may have been stopped. If it has become slower, more such passes follow.
_MOST_TIMES_SLOWER = 4.0


class Cost:
    """Seconds of a lane for a token of one path."""

    def __init__(self) -> None:
        self._tokens = 0.0
        self._seconds = 0.0

    @property
    def per_token(self) -> float:
        """Seconds of one lane; 0 if nothing is known."""
        return self._seconds / self._tokens if self._tokens else 0.0

    def note(self, tokens: float, seconds: float, *, full: bool) -> None:
        """Notes that a pass ended.

        Args:
            tokens: of the pass, without padding.
            seconds: that it kept one lane busy.
            full: whether more texts waited when it began. Else it could have held more at little
                cost, and a replica that is rarely asked would look slow.
        """
        tokens += 0 if full else _PASS_TOKENS
        if expected := self.per_token * tokens:
            seconds = min(seconds, max(_MOST_TIMES_SLOWER * expected, _HORIZON_SECONDS))
        kept = math.exp(-seconds / _HORIZON_SECONDS)
        self._tokens = self._tokens * kept + tokens
        self._seconds = self._seconds * kept + seconds
