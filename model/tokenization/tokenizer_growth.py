"""Bounds how many characters the normalizer of a `tokenizer.json` can make of one."""

import math
import re
from collections.abc import Mapping, Sequence
from itertools import groupby
from types import MappingProxyType
from typing import Any

# How many characters one character can become; NFKC makes 18 of U+FDFA.
GROWTH: Mapping[str, int] = MappingProxyType(
    {
        "BertNormalizer": 3,
        "Lowercase": 2,
        "NFC": 3,
        "NFD": 4,
        "NFKC": 18,
        "NFKD": 18,
        "Nmt": 1,
        "Strip": 1,
        "StripAccents": 1,
    }
)
# A set of plain characters and ranges. It matches one character, so a search is linear.
_MOST_RANGE = 1_000
_SET = re.compile(r"\[([^\[\]\\^&]+)\]")


def members_of_set(pattern: str) -> frozenset[str] | None:
    """Returns the characters of a set such as `[a-cx]`; None if the pattern is anything else.

    Args:
        pattern: a regular expression. A range in it may have a thousand characters.
    """
    found = _SET.fullmatch(pattern)
    if found is None:
        return None
    members: set[str] = set()
    rest = found[1]
    while rest:
        if len(rest) > 2 and rest[1] == "-":
            span = range(ord(rest[0]), ord(rest[2]) + 1)
            if len(span) > _MOST_RANGE:
                return None
            members.update(map(chr, span))
            rest = rest[3:]
        else:
            members.add(rest[0])
            rest = rest[1:]
    return frozenset(members)


def growth_of(steps: Sequence[Mapping[str, Any]]) -> int:
    """Bounds how many characters the steps of a normalizer can make of one.

    Args:
        steps: its parts in the order of use, each of a kind of `GROWTH`, a checked `Replace`, or a
            `Precompiled` whose `growth` was counted.
    """
    growth = 1
    for is_replaced, group in groupby(steps, key=lambda step: step["type"] == "Replace"):
        run = list(group)
        growth *= (
            _growth_by_replacing(run)
            if is_replaced
            else math.prod(GROWTH.get(step["type"]) or step["growth"] for step in run)
        )
    return growth


def _growth_by_replacing(steps: list[Mapping[str, Any]]) -> int:
    """Goes backwards, so that what a later step does to the content of an earlier one counts."""
    grown: dict[str, int] = {}
    other = 1  # for each character that is not in `grown`
    for step in reversed(steps):
        size = sum(grown.get(character, other) for character in step["content"])
        ((kind, pattern),) = step["pattern"].items()
        members = frozenset(pattern) if kind == "String" else members_of_set(pattern)
        if members is None:
            other = max(other, size)
            grown = {character: max(size, before) for character, before in grown.items()}
            continue
        share = math.ceil(size / len(pattern)) if kind == "String" else size
        for character in members:
            grown[character] = max(share, grown.get(character, other))
    return max([other, *grown.values()])
