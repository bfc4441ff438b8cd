"""Notes which paths through the network fail, and which workers stop; for the event loop only."""

from collections import deque

from model.predictor import PathName

# A worker that ends so often, with fewer passes of all workers in between, is not replaced.
MOST_ENDS = 3
WITHIN_PASSES = 100


class Faults:
    """The paths through the network that failed and have not worked since."""

    def __init__(self) -> None:
        self._since: dict[PathName, float] = {}

    def __bool__(self) -> bool:
        """Whether a path fails."""
        return bool(self._since)

    @property
    def paths(self) -> list[PathName]:
        """The paths that fail, the one that failed first at the beginning."""
        return list(self._since)

    def note(self, path: PathName, now: float) -> None:
        """Notes when a pass of a path failed."""
        self._since[path] = now

    def clear(self, path: PathName, began: float) -> None:
        """Notes that a pass worked, which proves nothing about a fault after it began."""
        if self._since.get(path, began) <= began:
            self._since.pop(path, None)


class Ends:
    """How often a worker stopped unexpectedly."""

    def __init__(self) -> None:
        self._last: deque[int] = deque(maxlen=MOST_ENDS)

    def note(self, passes: int) -> bool:
        """Notes a stop after so many passes of all workers; returns whether to restart it."""
        self._last.append(passes)
        return len(self._last) < MOST_ENDS or passes - self._last[0] >= WITHIN_PASSES
