"""From numbers as a caller has them, of numpy too, to ints; nothing is rounded on the way."""

import operator
from collections.abc import Iterable
from typing import SupportsIndex

Indices = Iterable[SupportsIndex]


def one_index(name: str, number: SupportsIndex) -> int:
    """A whole number as an int, which JSON knows.

    Args:
        name: of the argument, for the message.
        number: of any type that stands for whole numbers.

    Raises:
        TypeError: it is a float, a string or anything else that is no whole number.
    """
    try:
        return operator.index(number)
    except TypeError as error:
        raise TypeError(f"{name} takes whole numbers, got {number!r}: give an int") from error


def several_indices(name: str, numbers: Indices) -> list[int]:
    """Whole numbers as ints.

    Args:
        name: of the argument, for the message.
        numbers: a list, an array or anything else that holds whole numbers.

    Raises:
        TypeError: it is a single number, or holds something that is no whole number.
    """
    try:
        each = list(numbers)
    except TypeError as error:
        raise TypeError(f"{name} takes a list of whole numbers, got {numbers!r}") from error
    return [one_index(name, number) for number in each]
