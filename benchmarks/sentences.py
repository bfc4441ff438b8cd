"""From nothing to sentences: 200 opinions of our own, each made new by a number at its end."""

import itertools
from collections.abc import Iterator

_OPENINGS = (
    "The plot drags",
    "I liked the first hour",
    "Nobody in the cast can act",
    "The battery lasts for two days",
    "Our waiter was friendly and quick",
    "The book tells the same joke over and over again",
    "It broke within a week",
    "The camera finds beauty in the plainest rooms",
    "They never answered my letter",
    "We had been looking forward to this for months",
)
_JOINTS = ("but", "and", "although", "while")
_ENDINGS = (
    "the rest is superb.",
    "I would not go there again.",
    "my children want nothing else now.",
    "the price is far too high for what you get, even in a sale.",
    "it is worth every minute.",
)

SENTENCES = tuple(
    f"{opening}, {joint} {ending}"
    for opening, joint, ending in itertools.product(_OPENINGS, _JOINTS, _ENDINGS)
)


def numbered(first: int) -> Iterator[str]:
    """Sentences without end, none of them twice, so that no server can remember an answer.

    Args:
        first: the number at the end of the first sentence; each next one has the next number.
    """
    for number in itertools.count(first):
        yield f"{SENTENCES[number % len(SENTENCES)]} {number}"
