"""Decides what each worker may take.

There is an ordinary worker for each core. A pass over long texts keeps it busy for tens of
milliseconds, a piece of an integral for a fifth of a second. What comes meanwhile does not wait
for that: two extra threads compute it at once, and the operating system shares the cores.

- The express worker takes light requests while heavy passes keep all cores busy.
- The relief worker takes all other predictions while gradients do.
"""

from dataclasses import dataclass
from enum import Enum, auto

# With fewer tokens, sharing work among cores costs more than it gains.
WORTH_SHARING_TOKENS = 100
_FEWEST_TOKENS_PER_THREAD = 8
# A request of at most so many tokens is light if its client has at most so many others waiting.
_LIGHT_TOKENS = 256


class WorkerKind(Enum):
    """The kinds of workers; see the module."""

    ORDINARY = auto()
    EXPRESS = auto()
    RELIEF = auto()


EXTRA_WORKERS = (WorkerKind.EXPRESS, WorkerKind.RELIEF)


@dataclass(frozen=True, slots=True)
class Weight:
    """How long a request keeps a core busy: little, or as a piece of gradients."""

    light: bool
    gradient: bool = False


LIGHT = Weight(light=True)


def is_light(tokens: float, others: float) -> bool:
    """Whether a request is light, by its tokens and those of its client's other requests."""
    return tokens <= _LIGHT_TOKENS and others <= _LIGHT_TOKENS


class Workers:
    """The work of all workers on `count` cores; one thread at a time may use it."""

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

    def may_take(self, worker: WorkerKind, weight: Weight) -> bool:
        """Whether a worker of a kind may take a request of a weight."""
        if worker is WorkerKind.EXPRESS:
            return weight.light and self.are_taken
        if worker is WorkerKind.RELIEF:
            return not (weight.light or weight.gradient) and self._gradient >= self.count
        return True

    def begin(self, weight: Weight, tokens: int, *, is_all: bool) -> int:
        """Notes that a worker took a batch, of all that waits or not; returns its threads."""
        self._busy += 1
        self._count(weight, 1)
        alone = self._busy == 1 and is_all and tokens >= self._worth_sharing
        return min(self.count, tokens // self._fewest) if alone else 1

    def end(self, weight: Weight) -> None:
        """Notes that the batch of a worker ended."""
        self._busy -= 1
        self._count(weight, -1)

    def _count(self, weight: Weight, change: int) -> None:
        self._heavy += change * (not weight.light)
        self._gradient += change * weight.gradient
