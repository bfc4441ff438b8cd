"""Compares the answers with labels or stars that the input has."""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np

from scoring.errors import OptionError

_WHOLE = re.compile(r"([+-]?[0-9]+)(?:\.0+)?")
_STARS = ("negative", "negative", "neutral", "positive", "positive")
_STAR_COLUMNS = ("stars", "rating")
_MOST_VALUES, _SHOWN = 100, 10
_SHORTEST = 3  # letters of a label that stand for it, such as pos


@dataclass(slots=True)
class Comparison:
    """Counts the pairs of a value and an answer, and keeps the surest rows of each pair."""

    column: str
    labels: Sequence[str]
    pairs: dict[tuple[str, str], tuple[int, list[tuple[float, int]]]] = field(default_factory=dict)

    def add(self, value: object, label: str, score: float, row: int) -> None:
        """Adds a row that has an answer; raises OptionError if the values are no labels."""
        count, surest = self.pairs.get((_spell(value), label), (0, []))
        surest = sorted([*surest, (-score, row)])[:_SHOWN]
        self.pairs[_spell(value), label] = (count + 1, surest)
        if len(self.pairs) > _MOST_VALUES * len(self.labels):
            raise OptionError(
                f"--compare {self.column}: has more than {_MOST_VALUES} different values: name a "
                "column of labels or stars"
            )

    def lines(self) -> Iterator[str]:
        """Yields the agreement, a confusion table and the rows that disagree most.

        Raises:
            OptionError: the values cannot be understood as labels of the model.
        """
        meaning = _meaning(self.column, {value for value, _ in self.pairs}, self.labels)
        names = list(self.labels)
        table = np.zeros((len(names), len(names)), np.int64)
        wrong = []
        without = 0
        for (value, label), (count, surest) in self.pairs.items():
            known = meaning.get(value)
            if known is None:
                without += count
                continue
            table[names.index(known), names.index(label)] += count
            if known != label:
                wrong += [(score, row, known, label) for score, row in surest]
        total, right = int(table.sum()), int(table.trace())
        yield (
            f"agreement with {self.column!r}: {right:,} of {total:,} rows, "
            f"{right / max(total, 1):.1%}"
        )
        if without:
            yield f"not compared: {without:,} rows without a label that the model has"
        width = max(map(len, [*names, "in the file"])) + 2
        yield "".join(f"{name:>{width}}" for name in ["in the file", *names]) + "   (predicted)"
        for name, row_counts in zip(names, table.tolist(), strict=True):
            yield "".join(f"{cell:>{width}}" for cell in [name, *map("{:,}".format, row_counts)])
        if wrong:
            yield "rows that disagree most:"
        for score, row, known, label in sorted(wrong)[:_SHOWN]:
            yield f"  row {row}: {known} in the file, predicted {label}, score {-score:.4f}"


def _spell(value: object) -> str:
    text = "" if value is None else str(int(value) if isinstance(value, bool) else value).strip()
    whole = _WHOLE.fullmatch(text)
    return str(int(whole[1])) if whole and text.isascii() else text.casefold()


def _meaning(column: str, values: set[str], labels: Sequence[str]) -> dict[str, str]:
    """Returns the label of the model that each value stands for; others stand for none."""
    values = values - {""}
    numbers = {int(value) for value in values if _WHOLE.fullmatch(value)}
    if len(numbers) == len(values) and numbers:
        names = _names_of_numbers(column, numbers, labels)
        return {str(number): name for number, name in names.items() if name in labels}
    found = {}
    for value in values:
        fitting = [name for name in labels if name.casefold() == value] or [
            name for name in labels if len(value) >= _SHORTEST and name.casefold().startswith(value)
        ]
        if len(fitting) == 1:
            found[value] = fitting[0]
    if not found:
        raise OptionError(
            f"--compare {column}: none of its values is one of {', '.join(labels)}: name a column "
            "of labels or stars"
        )
    return found


def _names_of_numbers(column: str, numbers: set[int], labels: Sequence[str]) -> dict[int, str]:
    poles = {"negative", "positive"} <= set(labels)
    low, high = min(numbers), max(numbers)
    are_stars = column.strip().casefold() in _STAR_COLUMNS or high > _STARS.index("neutral") + 1
    if not set(map(str, numbers)) - set(labels):
        return {number: str(number) for number in numbers}
    if poles and low >= 1 and high <= len(_STARS) and are_stars:
        return dict(enumerate(_STARS, start=1))
    if poles and numbers <= {0, 1} and not are_stars:
        return {0: "negative", 1: "positive"}
    if low == 0 and high == len(labels) - 1:
        return dict(enumerate(labels))
    raise OptionError(
        f"--compare {column}: its numbers from {low} to {high} are neither 0 and 1, nor 0 to "
        f"{len(labels) - 1}, nor stars from 1 to 5: name the classes by words"
    )
