"""Reads labels, and finds their classes.

A word names a class. A whole number may have a sign or end in `.0` (`1`, `+1`, `1.00`); `007`,
`1E2` and digits other than ASCII's are words.
"""

import re
import unicodedata
from collections.abc import Collection, Sequence

from model.errors import shorten
from model.network.labels import check_label
from model.tables.rows import ClassName

Label = str | int

_SHOWN = 40

_WHOLE = re.compile(r"[+-]?(?:0|[1-9][0-9]{0,199})(?:\.0+)?")
_STARS = re.compile(r"([1-5])(?: stars?)?", re.IGNORECASE)
# Words that are no names: other numbers, and what is written in place of a number.
_OTHER_NUMBER = re.compile(r"[+-]?(?:[0-9]*\.[0-9]+|[0-9]+\.|nan|inf|infinity)", re.IGNORECASE)
_NO_LABEL = frozenset({"na", "n/a", "null", "none", "<na>"})
# Characters of other scripts that look like Latin letters, after case folding, and what they
# look like; no two words of one language differ only by these.
_TWINS = str.maketrans(
    "\u0430\u0435\u043e\u0440\u0441\u0443\u0445\u0456\u0458\u0455\u04bb\u0432\u043a\u043c\u043d\u0442"
    "\u03b1\u03bf\u03b9\u03bd\u03c1\u03ba\u03c4\u03b5\u03b7\u03c7\u0131\u0261\u2019",
    "aeopcyxijshbkmhtaoivpktenxig'",
)


def parse_label(value: object) -> Label:
    """Reads a label as a word or a whole number; raises ValueError for what is neither."""
    if isinstance(value, ClassName):
        return ClassName(check_label(value))
    value = value.strip() if isinstance(value, str) else value
    if value is None or value == "":
        raise ValueError("the label is empty: give every row a label, or leave the row out")
    number: int | None = None
    if isinstance(value, int):
        number = int(value)  # true and false are 1 and 0
    elif isinstance(value, float) and value.is_integer():
        number = int(value)
    elif isinstance(value, str):
        if _WHOLE.fullmatch(value):
            number = int(value.partition(".")[0])
        elif not _OTHER_NUMBER.fullmatch(value):
            return check_label(value)
    if number is not None:
        check_label(str(number))
        return number
    raise ValueError(
        f"label {shorten(repr(value), _SHOWN)} is neither a word nor a whole number: name each "
        "class by a word, or number the classes from 0"
    )


def sentiment_of_stars(label: Label) -> Label:
    """Reads 1 and 2 stars as negative, 3 as neutral, 4 and 5 as positive; else ValueError."""
    match = _STARS.fullmatch(str(label))
    if match is None:
        raise ValueError(f"label {shorten(repr(label), _SHOWN)} is no number of stars from 1 to 5")
    return ("negative", "negative", "neutral", "positive", "positive")[int(match[1]) - 1]


def name_classes(labels: Collection[Label]) -> tuple[str, ...]:
    """Names the classes: words by the alphabet, or numbers; 0 and 1 are `negative`, `positive`."""
    if all(label in (0, 1) for label in labels):
        return ("negative", "positive")
    numbers = sorted(label for label in labels if isinstance(label, int))
    words = sorted(label for label in labels if isinstance(label, str))
    return tuple(str(label) for label in (*numbers, *words))


def class_number(label: Label, labels: Sequence[str]) -> int:
    """Finds the class of a label; raises ValueError if there is none.

    A number is an index into `labels`, unless a class is named by a number.
    """
    name = str(label)
    if name in labels:
        return labels.index(name)
    if isinstance(label, ClassName):
        # Data sets shorten names, such as `neg` and `pos`; a number would be read as an index.
        longer = [other for other in labels if other.casefold().startswith(name.casefold())]
        if len(longer) == 1:
            return labels.index(longer[0])
    alike = next((other for other in labels if look_of(other) == look_of(name)), name)
    if alike.casefold() != name.casefold():
        raise ValueError(f"the label and a class, {difference(name, alike)}: write them alike")
    by_index = not any(map(is_number, labels))
    if by_index and isinstance(label, int) and 0 <= label < len(labels):
        return label
    range_hint = f" (or 0 to {len(labels) - 1})" if by_index else ""
    raise ValueError(
        f"label {shorten(repr(label), _SHOWN)} is not one of {', '.join(labels)}{range_hint}: "
        "correct it, or leave the row out"
    )


def is_number(label: Label) -> bool:
    """Whether a label is a number, or a word such as `007` that stands among numbers."""
    try:
        float(label)
    except ValueError:
        return False
    return True


def look_of(name: str) -> str:
    """Returns what is left of a name without the differences that a reader does not see."""
    folded = unicodedata.normalize("NFKC", unicodedata.normalize("NFKC", name).casefold())
    kinds = ((character, unicodedata.category(character)) for character in folded)
    # Format characters and variation selectors are not seen, and all dashes look alike.
    seen = "".join(
        "-" if kind == "Pd" else character
        for character, kind in kinds
        if kind != "Cf" and not "\ufe00" <= character <= "\ufe0f"
    )
    return " ".join(seen.translate(_TWINS).split())


def difference(first: Label, second: Label) -> str:
    """Names two spellings so that the difference is seen."""
    if str(first).casefold() == str(second).casefold():
        return f"{first!r} and {second!r} differ only by case"
    return f"{first!a} and {second!a} look alike"


def missing_hint(label: Label) -> str:
    """Returns what to say of a word such as `NA`; nothing for other labels."""
    if str(label).casefold() not in _NO_LABEL:
        return ""
    return f"{label!r} is read as a word, a class of its own: leave its rows out if they have none"
