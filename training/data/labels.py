"""From labels as files spell them to class numbers, and the names of the classes.

Words are names. Whole numbers are numbers however they are written (`1`, `1.0`, JSON's `true`).
"""

from collections.abc import Collection, Sequence

Label = str | int


def parse_label(value: object) -> Label:
    """A label as a word or as a whole number.

    Args:
        value: what a file holds.

    Raises:
        ValueError: it is neither; the message says what it is and what to do.
    """
    value = value.strip() if isinstance(value, str) else value
    if value is None or value == "":
        raise ValueError("the label is empty: give every row a label, or leave the row out")
    if isinstance(value, int):
        return int(value)  # true and false are 1 and 0
    if isinstance(value, str):
        try:
            return int(value)
        except ValueError:
            pass
    if isinstance(value, str | float):
        try:
            number = float(value)
        except ValueError:
            return str(value)
        if number.is_integer():
            return int(number)
    raise ValueError(
        f"label {_shown(value)} is neither a word nor a whole number: name each class by a word, "
        "or number the classes from 0"
    )


def name_classes(found: Collection[Label]) -> tuple[str, ...]:
    """The names of the classes, in their order, from the labels of all rows.

    Args:
        found: distinct labels, all words or all numbers.

    Returns:
        Words in alphabetical order; `negative` and `positive` for 0 and 1; the digits of other
        numbers, ascending.
    """
    if all(label in (0, 1) for label in found):
        return ("negative", "positive")
    numbers = sorted(label for label in found if isinstance(label, int))
    words = sorted(label for label in found if isinstance(label, str))
    return tuple(str(label) for label in (*numbers, *words))


def class_number(label: Label, labels: Sequence[str]) -> int:
    """The class that a label means.

    Args:
        label: a word or a number.
        labels: names of the classes, in their order. A number is the place of a class in it,
            counted from 0, unless a class has a number for a name.

    Raises:
        ValueError: there is no such class.
    """
    name = str(label)
    if name in labels:
        return labels.index(name)
    by_place = not any(isinstance(parse_label(other), int) for other in labels)
    if by_place and isinstance(label, int) and 0 <= label < len(labels):
        return label
    places = f" (or 0 to {len(labels) - 1})" if by_place else ""
    raise ValueError(
        f"label {_shown(label)} is not one of {', '.join(labels)}{places}: correct it, "
        "or leave the row out"
    )


def _shown(value: object) -> str:
    shown = repr(value)
    return shown if len(shown) <= 40 else f"{shown[:37]}..."
