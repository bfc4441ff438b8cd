"""Converts a caller's whole numbers, numpy's included, to ints without rounding."""

import operator
from collections.abc import Iterable
from typing import SupportsIndex

Indices = Iterable[SupportsIndex]


def one_index(name: str, number: SupportsIndex) -> int:
    """Converts a whole number to an int, which JSON can hold.

    Raises:
        TypeError: it is not a whole number, such as a float or a string.
    """
    try:
        return operator.index(number)
    except TypeError as error:
        raise TypeError(f"{name} takes whole numbers, got {number!r}: give an int") from error


def several_indices(name: str, numbers: Indices) -> list[int]:
    """Converts whole numbers to ints.

    Raises:
        TypeError: it is a single number, or holds something that is not a whole number.
    """
    try:
        each = list(numbers)
    except TypeError as error:
        raise TypeError(f"{name} takes a list of whole numbers, got {numbers!r}") from error
    return [one_index(name, number) for number in each]
