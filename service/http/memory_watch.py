"""Refuses requests while the memory of the process's control group is nearly full.

The kernel kills a process that exceeds the limit of its container, and every current request with
it.

Sources: the kernel's Documentation/admin-guide/cgroup-v2.rst and cgroup-v1/memory.rst.
"""

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from service.errors import OverloadedError, Refusal

# Above the first, requests with large answers or bodies are refused; above the second, all that
# compute. Health is always answered.
LARGE_SHARE = 0.90
ANY_SHARE = 0.95
# Bodies up to this size are small.
SMALL_BODY = 65_536

_SAMPLE_SECONDS = 0.25
_RETRY_SECONDS = 2.0
_ROOT = Path("/sys/fs/cgroup")
_OWN = Path("/proc/self/cgroup")
# Version 1 has a number like this for "no limit".
_NO_LIMIT = 2**60


@dataclass(frozen=True, slots=True)
class _Group:
    """A control group: its limit in bytes, and the files that hold what it uses.

    The usage includes the cache of files. The kernel can take back a part of that cache, which the
    statistics name `cache`.
    """

    limit: int
    usage: Path
    statistics: Path
    cache: str

    def share(self) -> float:
        """Returns the part of the limit that is in use; 0 if the files are gone."""
        try:
            used = int(self.usage.read_text("ascii"))
            words = self.statistics.read_text("ascii").split()
            cache = int(words[words.index(self.cache) + 1])
        except (OSError, ValueError, IndexError):
            return 0.0
        return (used - cache) / self.limit


class MemoryWatch:
    """Refuses requests while the memory is nearly full; without a limit it refuses none.

    Args:
        root: where the control groups are mounted.
        own: the file that names the groups of the process.
        clock: seconds.
    """

    def __init__(
        self,
        *,
        root: Path | None = None,
        own: Path | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._groups = list(_find(root or _ROOT, own or _OWN))
        self._clock = clock
        self._next = clock()
        self._share = 0.0

    @property
    def share(self) -> float:
        """The part of the memory in use, from 0 to 1, at most a quarter of a second old."""
        if self._groups and self._clock() >= self._next:
            self._next = self._clock() + _SAMPLE_SECONDS
            self._share = max(group.share() for group in self._groups)
        return self._share

    def check(self, most: float) -> None:
        """Raises OverloadedError if a larger share of the memory than `most` is in use."""
        if self.share <= most:
            return
        kind = "no request that computes" if most >= ANY_SHARE else "no large request"
        raise OverloadedError(
            f"{self._share:.0%} of the memory is in use, and above {most:.0%} the service takes "
            f"{kind}: try again later, or ask another replica.",
            refusal=Refusal.MEMORY,
            retry_after=_RETRY_SECONDS,
        )


def _find(root: Path, own: Path) -> Iterator[_Group]:
    """Finds the groups that limit the process: its own and those that contain it."""
    try:
        lines = own.read_text("utf-8").splitlines()
    except OSError:  # no Linux
        return
    for line in lines:
        _, controllers, path = line.split(":", 2)
        inner = Path(path.lstrip("/"))
        # In a container the group may be mounted at the root, whatever its path is outside.
        folders = [inner, *inner.parents]
        if not controllers:
            for folder in folders:
                yield from _read(root / folder, "memory.max", "memory.current", "inactive_file")
        elif "memory" in controllers.split(","):
            names = ("memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file")
            for folder in folders:
                yield from _read(root / "memory" / folder, *names)


def _read(folder: Path, limit: str, usage: str, cache: str) -> Iterator[_Group]:
    try:
        most = int((folder / limit).read_text("ascii"))
    except (OSError, ValueError):  # there is no such group, or its limit is "max"
        return
    if 0 < most < _NO_LIMIT:
        yield _Group(most, folder / usage, folder / "memory.stat", cache)
