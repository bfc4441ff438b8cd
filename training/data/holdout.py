"""Holds rows of many sources out, and finds the rows that share no text with them."""

import random
import re
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence

from training.data.splits import text_key
from training.errors import RecipeError

_GAPS = re.compile(r"[\W_]+")
# The Penn style: `do n't`, `can not`, `-lrb-`.
_NOT = re.compile(r"n['\u2019]t\b")
_BRACKET = re.compile(r"-[lr][rcs]b-")
_LONG = 8  # the fewest words of a text that is held out
Words = tuple[str, str, str]


def word_key(text: str) -> str:
    """Returns the words of a text between spaces, without case, punctuation and Penn style."""
    folded = text.casefold().replace("cannot", "can not")
    folded = _NOT.sub(" not", _BRACKET.sub(" ", folded))
    return f" {_GAPS.sub(' ', folded).strip()} "


def choose_held_out(
    texts: Mapping[str, Sequence[str]], counts: Mapping[str, int], *, seed: int
) -> dict[str, list[int]]:
    """Chooses rows to hold out, among those of at least eight words.

    Args:
        texts: of each source.
        counts: how many rows of each source.
        seed: decides which rows.

    Returns:
        Their indices in each source, ascending.

    Raises:
        RecipeError: a source has too few such rows.
    """
    chosen = {}
    for name, count in counts.items():
        rng = random.Random(f"{seed}/{name}")  # noqa: S311 - not for secrets
        long = [at for at, text in enumerate(texts[name]) if len(word_key(text).split()) >= _LONG]
        if count > len(long):
            raise RecipeError(
                f"source {name}: hold_out is {count}, but {len(long)} of its rows have {_LONG} "
                "words and more: hold fewer out"
            )
        chosen[name] = sorted(rng.sample(long, count))
    return chosen


def rows_without_overlap(texts: Sequence[str], held_out: Sequence[str]) -> list[int]:
    """Finds the rows that share no text with the held-out rows.

    A row is left out if it equals a held-out text by letters and digits. It is also left out if it
    has at least three words and is part of a held-out text, or if it contains one, by words.

    Args:
        texts: of all rows.
        held_out: the texts that are held out.

    Returns:
        Indices of the rows that stay.
    """
    held = list(dict.fromkeys(word_key(text) for text in held_out))
    # Indexed by three words in a row, so that few whole texts must be compared.
    anywhere: dict[Words, list[str]] = defaultdict(list)
    at_start: dict[Words, list[str]] = defaultdict(list)
    short = []
    for key in held:
        runs = list(_runs(key))
        for run in set(runs):
            anywhere[run].append(key)
        if runs:
            at_start[runs[0]].append(key)
        else:
            short.append(key)
    letters = {text_key(text) for text in held_out}

    def overlaps(text: str) -> bool:
        key = word_key(text)
        if text_key(text) in letters or any(part in key for part in short):
            return True
        runs = list(_runs(key))
        if not runs:
            return False
        if any(key in whole for whole in anywhere.get(runs[0], ())):
            return True
        return any(part in key for run in at_start.keys() & runs for part in at_start[run])

    return [at for at, text in enumerate(texts) if not overlaps(text)]


def _runs(key: str) -> Iterator[Words]:
    """Yields every three words in a row."""
    words = key.split()
    return zip(words, words[1:], words[2:], strict=False)
