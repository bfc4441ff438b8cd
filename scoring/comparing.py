"""Compares the answers with labels or stars that the input has."""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence

import numpy as np

from model.errors import place
from model.tables.columns import show
from scoring.errors import ScoringError

_WHOLE = re.compile(r"([+-]?[0-9]{1,18})(?:\.0+)?")
_STARS = ("negative", "negative", "neutral", "positive", "positive")
_STAR_COLUMNS = ("stars", "rating")
_MOST_VALUES, _SHOWN = 100, 10
_SHORTEST = 3  # letters of a label that stand for it, such as pos


class Comparison:
    """Counts how often the answers agree with a column, and keeps the surest rows that do not.

    Args:
        values: all of the column, each with the number of its row.

    Raises:
        ScoringError: they cannot be understood as labels of the model.
    """

    def __init__(
        self, path: str, column: str, labels: Sequence[str], values: Iterable[tuple[object, int]]
    ) -> None:
        self._path, self._column, self._labels = path, column, labels
        firsts: dict[str, tuple[object, int]] = {}
        for value, row in values:
            firsts.setdefault(_spell(value), (value, row))
            if len(firsts) > _MOST_VALUES:
                raise self._refusal(f"has more than {_MOST_VALUES} different values")
        firsts.pop("", None)
        self._meaning = self._meaning_of(firsts)
        self._table = np.zeros((len(labels), len(labels)), np.int64)
        self._wrong: list[tuple[float, int, str, str]] = []
        self._without = 0

    def add(self, value: object, label: str, score: float, row: int) -> None:
        """Adds a row that has an answer."""
        known = self._meaning.get(_spell(value))
        if known is None:
            self._without += 1
            return
        self._table[self._labels.index(known), self._labels.index(label)] += 1
        if known != label:
            self._wrong = sorted([*self._wrong, (-score, row, known, label)])[:_SHOWN]

    def lines(self) -> Iterator[str]:
        """Yields what numbers mean, the agreement, a table and the rows that disagree most."""
        numbers: dict[str, list[str]] = {}
        for value, name in self._meaning.items():
            if _WHOLE.fullmatch(value) and value != name:
                numbers.setdefault(name, []).append(value)
        read = (
            f"{' and '.join(each)} {'are' if len(each) > 1 else 'is'} {name}"
            for name, each in numbers.items()
        )
        if numbers:
            yield f"numbers in {self._column!r}: {', '.join(read)}"
        total, right = int(self._table.sum()), int(self._table.trace())
        yield (
            f"agreement with {self._column!r}: {right:,} of {total:,} rows, "
            f"{right / max(total, 1):.1%}"
        )
        if self._without:
            yield f"not compared: {self._without:,} rows without a label that the model has"
        names = list(self._labels)
        width = max(map(len, [*names, "in the file"])) + 2
        yield "".join(f"{name:>{width}}" for name in ["in the file", *names]) + "   (predicted)"
        for name, row_counts in zip(names, self._table.tolist(), strict=True):
            yield "".join(f"{cell:>{width}}" for cell in [name, *map("{:,}".format, row_counts)])
        if self._wrong:
            yield "rows that disagree most:"
        for score, row, known, label in self._wrong:
            where = place(self._path, row)
            yield f"  {where}: {known} in the file, predicted {label}, score {-score:.4f}"

    def _meaning_of(self, values: Mapping[str, tuple[object, int]]) -> dict[str, str]:
        """Returns the label of the model that each value stands for; others stand for none."""
        labels = self._labels
        numbers = {int(value) for value in values if _WHOLE.fullmatch(value)}
        if not values:
            raise self._refusal("has no values")
        if len(numbers) == len(values):
            found = _names_of_numbers(self._column, numbers, labels)
            if found is None:
                raise self._refusal(f"has numbers from {min(numbers)} to {max(numbers)}")
            return {str(number): name for number, name in found.items() if name in labels}
        words = {}
        for value in values:
            fitting = [name for name in labels if name.casefold() == value] or [
                name
                for name in labels
                if len(value) >= _SHORTEST and name.casefold().startswith(value)
            ]
            if len(fitting) == 1:
                words[value] = fitting[0]
        if not words:
            first, row = next(each for key, each in values.items() if not _WHOLE.fullmatch(key))
            raise self._refusal(f"{place(self._path, row)} has {show([str(first)])}")
        return words

    def _refusal(self, problem: str) -> ScoringError:
        return ScoringError(
            f"--compare {self._column}: {problem}: name a column whose values are "
            f"{', '.join(self._labels)}, or all 0 and 1, 0 to {len(self._labels) - 1}, or "
            "whole stars from 1 to 5"
        )


def _spell(value: object) -> str:
    text = "" if value is None else str(int(value) if isinstance(value, bool) else value).strip()
    whole = _WHOLE.fullmatch(text)
    return str(int(whole[1])) if whole else text.casefold()


def _names_of_numbers(
    column: str, numbers: set[int], labels: Sequence[str]
) -> dict[int, str] | None:
    """Returns what numbers mean; None if it is not sure."""
    has_pair = {"negative", "positive"} <= set(labels)
    low, high = min(numbers), max(numbers)
    are_stars = column.strip().casefold() in _STAR_COLUMNS or high > _STARS.index("neutral") + 1
    if not set(map(str, numbers)) - set(labels):
        return {number: str(number) for number in numbers}
    if has_pair and low >= 1 and high <= len(_STARS) and are_stars:
        return dict(enumerate(_STARS, start=1))
    if has_pair and numbers <= {0, 1} and not are_stars:
        return {0: "negative", 1: "positive"}
    if low == 0 and high == len(labels) - 1:
        return dict(enumerate(labels))
    return None
