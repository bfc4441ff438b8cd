"""Refuses names of classes that could change what stands around them, and chooses among labels."""

from collections.abc import Collection, Iterable, Sequence
from typing import Annotated
from unicodedata import category

from pydantic import AfterValidator

from model.types import Choice

PAIR = ("negative", "positive")  # the classes of a pair that may have a temperature of its own
_MOST_LABEL = 200
# Control characters, halves of surrogate pairs, the ends of lines and paragraphs.
_NO_TEXT = frozenset({"Cc", "Cs", "Zl", "Zp"})
# They turn the direction of what stands behind them.
_TURNS = frozenset("\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069")
_MARKUP = frozenset("<>")


def has_pair(labels: Collection[str]) -> bool:
    """Whether there are `negative` and `positive`, and other labels too."""
    return set(PAIR) < set(labels)


def check_label(label: str) -> str:
    """Refuses, by ValueError, a name that could change what stands around it in answers."""
    if len(label) > _MOST_LABEL:
        raise ValueError(f"a label has {len(label)} characters, must have at most {_MOST_LABEL}")
    if not label.strip():
        raise ValueError(f"label {label!r} must have a character that is not white space")
    for character in label:
        if character in _MARKUP or character in _TURNS or category(character) in _NO_TEXT:
            raise ValueError(
                f"label {label!r} must not have the character U+{ord(character):04X}: markup (< "
                "and >), control characters, line breaks and half surrogate pairs are refused"
            )
    return label


def _check_labels(labels: tuple[str, ...]) -> tuple[str, ...]:
    for label in labels:
        check_label(label)
    return labels


Labels = Annotated[tuple[str, ...], AfterValidator(_check_labels)]


def choose_among(
    wanted: Iterable[str],
    labels: Sequence[str],
    temperature: float,
    pair_temperature: float | None = None,
) -> Choice:
    """Makes a choice among two or more of a model's labels, or raises ValueError.

    `pair_temperature` is that of a choice between `negative` and `positive`.
    """
    given = list(wanted)
    if len(set(given)) < max(2, len(given)) or not set(given) <= set(labels):
        raise ValueError(choice_error(labels))
    chosen = tuple(label for label in labels if label in given)
    if pair_temperature is not None and set(chosen) == set(PAIR):
        temperature = pair_temperature
    return Choice(chosen, temperature)


def choice_error(labels: Iterable[str]) -> str:
    """Says what a choice among some of a model's labels must name."""
    return f"give two or more different ones of the model's labels: {', '.join(labels)}"
