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
    """Returns texts sorted by length, in batches within a budget.

    Args:
        texts: to sort.
        max_batch_tokens: of a batch, padding counted; a longer text goes alone.
        length: of a text, in tokens.
    """
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
    lanes: Executor,
    seconds: float,
) -> float:
    """Measures how many texts a loop of passes computes.

    Args:
        run: computes one pass.
        passes: of texts sorted by length, that are computed over and over again.
        lanes: threads, one for each pass at once.
        seconds: how long.
    """
    end = time.perf_counter() + _WARM_UP_SECONDS
    while time.perf_counter() < end:
        _round(run, passes, lanes)
    rounds: list[float] = []
    end = time.perf_counter() + seconds
    while not rounds or time.perf_counter() < end:
        started = time.perf_counter()
        _round(run, passes, lanes)
        rounds.append(time.perf_counter() - started)
    return sum(map(len, passes)) / statistics.median(rounds)


def _round(
    run: Callable[[list[Text]], object], passes: Sequence[list[Text]], lanes: Executor
) -> None:
    for _ in lanes.map(run, reversed(passes)):  # the longest first, so none is last
        pass
