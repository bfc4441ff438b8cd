"""Tells the lanes what they may take.

There is an ordinary lane for each core. A pass over long texts keeps it busy for tens of
milliseconds, a piece of an integral for a fifth of a second. What comes meanwhile does not wait for
that: two more threads compute it at once, and the operating system shares the cores. So heavy work
may use all cores, and gives them back in milliseconds.

- The express lane takes light requests while heavy passes keep all cores busy.
- The relief lane takes all other predictions while gradients do.
"""

from dataclasses import dataclass
from enum import Enum, auto

# With fewer tokens, sharing work among cores costs more than it gains.
WORTH_SHARING_TOKENS = 100
_FEWEST_TOKENS_PER_THREAD = 8
# A request of at most so many tokens is light if its client has at most so many others waiting.
_LIGHT_TOKENS = 256


class Lane(Enum):
    """The kinds of lanes; see the module."""

    ORDINARY = auto()
    EXPRESS = auto()
    RELIEF = auto()


EXTRA_LANES = (Lane.EXPRESS, Lane.RELIEF)


@dataclass(frozen=True, slots=True)
class Weight:
    """How long a request, or a pass of such requests, keeps a core busy.

    Args:
        light: a small request of a client that asks for little.
        gradient: a piece of gradients.
    """

    light: bool
    gradient: bool = False


LIGHT = Weight(light=True)


def is_light(tokens: float, others: float) -> bool:
    """Tells whether a request is light.

    Args:
        tokens: what it costs, in tokens of a prediction.
        others: what the other requests of its client cost that are not answered yet.
    """
    return tokens <= _LIGHT_TOKENS and others <= _LIGHT_TOKENS


class Lanes:
    """The work of all lanes; one thread at a time may use it.

    Args:
        count: the number of cores that lanes share; a GPU is one.
        worth_sharing: the fewest tokens for which a pass that is alone uses several threads.
    """

    def __init__(self, count: int, *, worth_sharing: int = WORTH_SHARING_TOKENS) -> None:
        self.count = count
        self._worth_sharing = worth_sharing
        # Where little work is worth sharing, two threads share it.
        self._fewest = max(1, min(_FEWEST_TOKENS_PER_THREAD, worth_sharing // 2))
        self._busy = 0
        self._heavy = 0
        self._gradient = 0

    @property
    def are_taken(self) -> bool:
        """Whether heavy passes keep all cores busy."""
        return self._heavy >= self.count

    def may_take(self, lane: Lane, weight: Weight) -> bool:
        """Tells whether a lane may take a request.

        Args:
            lane: its kind.
            weight: of the request.
        """
        if lane is Lane.EXPRESS:
            return weight.light and self.are_taken
        if lane is Lane.RELIEF:
            return not (weight.light or weight.gradient) and self._gradient >= self.count
        return True

    def begin(self, weight: Weight, tokens: int, *, is_all: bool) -> int:
        """Notes that a lane took a batch.

        Args:
            weight: of its requests.
            tokens: tokens of the batch.
            is_all: whether no other text waits.

        Returns:
            The number of threads for the batch.
        """
        self._busy += 1
        self._count(weight, 1)
        alone = self._busy == 1 and is_all and tokens >= self._worth_sharing
        return min(self.count, tokens // self._fewest) if alone else 1

    def end(self, weight: Weight) -> None:
        """Notes that a batch of a lane ended."""
        self._busy -= 1
        self._count(weight, -1)

    def _count(self, weight: Weight, change: int) -> None:
        self._heavy += change * (not weight.light)
        self._gradient += change * weight.gradient
