"""From many sources to rows to train on and rows held out, with nothing of one in the other."""

import random
import re
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence

from training.data.splits import text_key
from training.errors import RecipeError

_GAPS = re.compile(r"[\W_]+")
# What the Penn style writes otherwise than people do: `do n't`, `can not`, `-lrb-`.
_NOT = re.compile(r"n['\u2019]t\b")
_BRACKET = re.compile(r"-[lr][rcs]b-")
_LONG = 8  # words of a text that is worth holding out
Words = tuple[str, str, str]


def word_key(text: str) -> str:
    """The words of a text, between spaces, without case, punctuation and the ways of Penn."""
    folded = text.casefold().replace("cannot", "can not")
    folded = _NOT.sub(" not", _BRACKET.sub(" ", folded))
    return f" {_GAPS.sub(' ', folded).strip()} "


def choose_held_out(
    texts: Mapping[str, Sequence[str]], counts: Mapping[str, int], *, seed: int
) -> dict[str, list[int]]:
    """Chooses rows to hold out, among those of eight words and more.

    Args:
        texts: of each source.
        counts: how many of each.
        seed: decides which.

    Returns:
        Their places in each source, ascending.

    Raises:
        RecipeError: a source has not so many.
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
    """The rows that tell nothing of what is held out.

    A row goes if it is one of the held-out texts, compared on letters and digits; or if it is a
    part of one of three words and more, or has one as its part, compared on words.

    Args:
        texts: of all rows.
        held_out: the texts that are held out.

    Returns:
        Places of the rows that stay.
    """
    held = list(dict.fromkeys(word_key(text) for text in held_out))
    # By three words in a row, so that few texts must be compared whole.
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

    def tells(text: str) -> bool:
        key = word_key(text)
        if text_key(text) in letters or any(part in key for part in short):
            return True
        runs = list(_runs(key))
        if not runs:
            return False
        if any(key in whole for whole in anywhere.get(runs[0], ())):
            return True
        return any(part in key for run in at_start.keys() & runs for part in at_start[run])

    return [at for at, text in enumerate(texts) if not tells(text)]


def _runs(key: str) -> Iterator[Words]:
    """Every three words in a row."""
    words = key.split()
    return zip(words, words[1:], words[2:], strict=False)
