"""Provides the texts that servers are asked; a number at the end makes each one unique."""

import itertools
import json
from collections.abc import Sequence
from pathlib import Path

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
"""200 sentences from templates."""

FIRST_NUMBER = 200_000


def write_literals(texts: Sequence[str], path: Path) -> None:
    """Writes texts for wrk, each line a JSON string without its closing quote.

    So the client adds only a number and the quote.
    """
    lines = [json.dumps(text, ensure_ascii=False)[:-1] for text in texts]
    path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")


def numbered(text: str, number: int) -> str:
    """Makes a text that no server has been asked yet, so that no cache holds its answer."""
    return f"{text} {number}"
