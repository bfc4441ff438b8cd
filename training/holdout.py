"""From many sources to rows to train on and rows held out, with nothing of one in the other."""

import random
import re
from collections.abc import Mapping, Sequence

_GAPS = re.compile(r"[\W_]+")
_LONG = 8  # words of a text that is worth holding out
_TELLING = 3  # words of a text that tells something of one that it is part of


def word_key(text: str) -> str:
    """The words of a text, between spaces, without case and punctuation."""
    return f" {_GAPS.sub(' ', text.casefold()).strip()} "


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
    """
    chosen = {}
    for name, count in counts.items():
        chance = random.Random(f"{seed}/{name}")  # noqa: S311 - not for secrets
        long = [at for at, text in enumerate(texts[name]) if len(text.split()) >= _LONG]
        chosen[name] = sorted(chance.sample(long, min(count, len(long))))
    return chosen


def rows_apart(texts: Sequence[str], held_out: Sequence[str]) -> list[int]:
    """The rows that tell nothing of what is held out.

    A row goes if it is one of the held-out texts, a part of one of three words and more, or has
    one as its part; compared on words alone.

    Args:
        texts: of all rows.
        held_out: the texts that are held out.

    Returns:
        Places of the rows that stay.
    """
    held = [word_key(text) for text in held_out]
    whole = "\n".join(held)
    exact = set(held)
    keys = [word_key(text) for text in texts]
    everything = "\n".join(keys)
    containing = [key for key in exact if everything.count(key) > keys.count(key)]
    return [
        at
        for at, key in enumerate(keys)
        if key not in exact
        and not (key.count(" ") > _TELLING and key in whole)
        and not any(part in key for part in containing)
    ]
