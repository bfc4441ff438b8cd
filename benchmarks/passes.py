"""Sorts texts into passes by length, and measures how fast a loop of passes is."""

import statistics
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Executor
from typing import TypeVar

_WARM_UP_SECONDS = 1.0

Text = TypeVar("Text")


def batches(
    texts: Sequence[Text], max_batch_tokens: int, *, length: Callable[[Text], int]
) -> list[list[Text]]:
    """Returns texts sorted by length, in batches within a budget, padding counted."""
    found: list[list[Text]] = []
    for text in sorted(texts, key=length):
        if found and length(text) * (len(found[-1]) + 1) <= max_batch_tokens:
            found[-1].append(text)
        else:
            found.append([text])
    return found


def texts_per_second(
    run: Callable[[list[Text]], object],
    passes: Sequence[list[Text]],
    *,
    workers: Executor,
    seconds: float,
) -> float:
    """Measures how many texts a loop of passes computes, by its median round after a warm-up."""

    def round_seconds() -> float:
        started = time.perf_counter()
        for _ in workers.map(run, reversed(passes)):  # the longest first, so none is last
            pass
        return time.perf_counter() - started

    end = time.perf_counter() + _WARM_UP_SECONDS
    while time.perf_counter() < end:
        round_seconds()
    rounds: list[float] = []
    end = time.perf_counter() + seconds
    while not rounds or time.perf_counter() < end:
        rounds.append(round_seconds())
    return sum(map(len, passes)) / statistics.median(rounds)
