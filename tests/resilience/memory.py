"""Tells from samples of a process's memory whether it stays flat after warm-up."""

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median

MOST_SPREAD = 0.03
_WINDOWS = 5
_FEWEST = 5  # samples of a window, so that its median is not one moment's


@dataclass(frozen=True, slots=True)
class Sample:
    """What one process held at one moment.

    Args:
        seconds: since the load began.
        memory: resident, in bytes.
        files: open.
        started: when the process began, by the system's clock.
    """

    seconds: float
    memory: float
    files: float
    started: float


@dataclass(frozen=True, slots=True)
class Flatness:
    """Medians of memory in windows of equal length after warm-up.

    Args:
        medians: in bytes, in order; none if there were too few samples.
    """

    medians: tuple[float, ...]

    @property
    def spread(self) -> float:
        """By what share the largest median exceeds the smallest."""
        return max(self.medians) / min(self.medians) - 1.0 if self.medians else 0.0

    @property
    def is_flat(self) -> bool:
        """Whether the medians differ by no more than `MOST_SPREAD`; no for too few samples."""
        return bool(self.medians) and self.spread <= MOST_SPREAD

    def __str__(self) -> str:
        if not self.medians:
            return f"not judged: {_WINDOWS} windows need {_FEWEST} samples each after warm-up"
        shown = ", ".join(f"{each / 1e6:.0f}" for each in self.medians)
        verdict = "flat" if self.is_flat else "NOT FLAT"
        return f"{verdict}: medians of {shown} MB, a spread of {100 * self.spread:.1f} %"


def judge_memory(samples: Sequence[Sample], *, warm_up: float, end: float) -> Flatness:
    """Cuts the time after warm-up into windows.

    Args:
        samples: of one process.
        warm_up: seconds that are left out.
        end: of the load, in seconds since it began.
    """
    width = (end - warm_up) / _WINDOWS
    windows = [
        [
            sample.memory
            for sample in samples
            if warm_up + number * width <= sample.seconds < warm_up + (number + 1) * width
        ]
        for number in range(_WINDOWS)
    ]
    if width <= 0 or min(len(window) for window in windows) < _FEWEST:
        return Flatness(())
    return Flatness(tuple(median(window) for window in windows))
