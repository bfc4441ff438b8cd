"""Changes to training texts that leave their sentiment alone."""

import random
import re
from collections.abc import Sequence

# The Penn Treebank writes contractions and punctuation as words of their own.
_CLITIC = re.compile(r"(?<=\w) (?=(?:n't|'s|'re|'ve|'ll|'d|'m)\b)", re.IGNORECASE)
_BEFORE_PUNCTUATION = re.compile(r" (?=[,.;:!?%)\]])")
_AFTER_BRACKET = re.compile(r"(?<=[(\[]) ")
_BRACKETS = {"-lrb-": "(", "-rrb-": ")", "``": '"', "''": '"'}
_BRACKET = re.compile("|".join(map(re.escape, _BRACKETS)), re.IGNORECASE)
_PENN = re.compile(r"\w n't\b|\w '(?:s|re|ve|ll|d|m)\b|-[lr]rb-|``", re.IGNORECASE)


def undo_penn(text: str) -> str:
    """Writes a text of the Penn style (`do n't`, `-lrb-`) as people do (`don't`, `(`).

    Args:
        text: in any style; one that shows nothing of the Penn style stays as it is.
    """
    if not _PENN.search(text):
        return text
    text = _BRACKET.sub(lambda match: _BRACKETS[match[0].lower()], text)
    text = _CLITIC.sub("", text)
    text = _BEFORE_PUNCTUATION.sub("", text)
    return _AFTER_BRACKET.sub("", text)


def undo_penn_in_share(texts: Sequence[str], *, share: float, seed: int) -> tuple[str, ...]:
    """Rewrites a share of the texts that are in the Penn style.

    Args:
        texts: of the training rows.
        share: of those in the Penn style.
        seed: decides which.
    """
    rng = random.Random(f"{seed}/penn")  # noqa: S311 - not for secrets
    return tuple(
        undo_penn(text) if _PENN.search(text) and rng.random() < share else text for text in texts
    )
