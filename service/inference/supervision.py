"""Notes which ways through the network fail, and which lanes end unasked.

Both are used on the event loop alone.
"""

from collections import deque

from model.predictor import PathName

# A lane that ends so often, with fewer passes of all lanes in between, is not replaced.
MOST_ENDS = 3
WITHIN_PASSES = 100


class Faults:
    """The paths through the network that failed and have not worked since."""

    def __init__(self) -> None:
        self._since: dict[PathName, float] = {}

    def __bool__(self) -> bool:
        """Tells whether a path fails."""
        return bool(self._since)

    @property
    def paths(self) -> list[PathName]:
        """The paths that fail, the one that failed first at the beginning."""
        return list(self._since)

    def note(self, path: PathName, now: float) -> None:
        """Notes that a pass failed.

        Args:
            path: its way through the network.
            now: the time of a monotonic clock.
        """
        self._since[path] = now

    def clear(self, path: PathName, began: float) -> None:
        """Notes that a pass worked, which proves nothing about a fault after its beginning.

        Args:
            path: its way through the network.
            began: when it began, by the same clock.
        """
        if self._since.get(path, began) <= began:
            self._since.pop(path, None)


class Ends:
    """The unasked ends of one lane."""

    def __init__(self) -> None:
        self._last: deque[int] = deque(maxlen=MOST_ENDS)

    def note(self, passes: int) -> bool:
        """Notes that the lane ended, and tells whether it should be replaced.

        Args:
            passes: passes of all lanes so far.
        """
        self._last.append(passes)
        return len(self._last) < MOST_ENDS or passes - self._last[0] >= WITHIN_PASSES
