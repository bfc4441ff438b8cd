"""Refuses in a foreign tokenizer what a trial with some texts cannot find.

`sandbox` finds what fills the memory or runs for ever on the texts that it tries.
"""

import base64
import json
import math
import re
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import tokenizers

from model.errors import CheckpointError, UnsupportedCheckpointError
from model.tokenization.tokenizer import MARGIN

# Answers repeat tokens.
_MOST_TOKEN = 512
_MOST_GROWTH = 64
# How many characters the library's own rules make of one; NFKC makes 18 of U+FDFA.
_LIBRARY = {
    "BertNormalizer": 3,
    "ByteLevel": 4,
    "Lowercase": 2,
    "NFC": 3,
    "NFD": 4,
    "NFKC": 18,
    "NFKD": 18,
}
_PLAIN_SET = re.compile(r"\[([^\[\]\\^&-]+)\]")


def check_parts(path: Path, backend: tokenizers.Tokenizer) -> None:
    """Refuses a tokenizer that makes texts too long, or reads excerpts or equal texts differently.

    Raises:
        CheckpointError: a part goes beyond its bounds; the message names its field.
        UnsupportedCheckpointError: a part cannot read a text from its end.
    """
    growth = growth_of(_parts(_state(backend.normalizer)))
    if growth > _MOST_GROWTH:
        raise CheckpointError(
            path,
            f"normalizer can make {growth} characters of one, at most {_MOST_GROWTH} are allowed",
        )
    if any(part["type"] == "FixedLength" for part in _parts(_state(backend.pre_tokenizer))):
        raise UnsupportedCheckpointError(
            path, "pre_tokenizer.type is 'FixedLength', which cannot read a text from its end"
        )
    most = getattr(backend.model, "max_input_chars_per_word", 1)
    if not 1 <= most <= MARGIN:
        raise CheckpointError(
            path, f"model.max_input_chars_per_word is {most}, must be from 1 to {MARGIN}"
        )
    dropout = getattr(backend.model, "dropout", None)
    if dropout:
        raise CheckpointError(
            path,
            f"model.dropout is {dropout}, must be null: a text must always give the same tokens",
        )


def check_tokens(path: Path, backend: tokenizers.Tokenizer) -> None:
    """Refuses a token that is too long to be repeated in answers."""
    longest = max(map(len, backend.get_vocab(with_added_tokens=True)), default=0)
    if longest > _MOST_TOKEN:
        raise CheckpointError(
            path, f"holds a token of {longest} characters, must have at most {_MOST_TOKEN}"
        )


def growth_of(parts: Iterable[Mapping[str, Any]]) -> int:
    """Bounds how many characters a normalizer can make of one.

    It goes backwards, so that what a later part does to the content of an earlier one counts.
    """
    grown: dict[str, int] = {}
    other = 1  # for each character that is not in `grown`
    rule = 1  # by the library's rules since the last replacement: they do not multiply one another
    for part in reversed(list(parts)):
        if "precompiled_charsmap" in part:
            table = base64.b64decode(part["precompiled_charsmap"])
            other = max([other, *grown.values()]) * _longest_replacement(table)
            grown, rule = {}, 1
            continue
        if part["type"] in _LIBRARY:
            if _LIBRARY[part["type"]] > rule:
                rule, before = _LIBRARY[part["type"]], rule
                other = math.ceil(max([other, *grown.values()]) * rule / before)
                grown = {}
            continue
        rule = 1
        content = part.get("content", part.get("prepend", ""))
        size = sum(grown.get(character, other) for character in content)
        members = _members(part.get("pattern", {}))
        if members:
            grown |= {each: max(size, grown.get(each, other)) for each in members}
        else:  # it may match any character, or between two
            other += size
            grown = {character: before + size for character, before in grown.items()}
    return max([other, *grown.values()])


def _members(pattern: Mapping[str, str]) -> str:
    """Returns the characters of a string or of a plain set such as `[ab]`, else nothing."""
    plain = _PLAIN_SET.fullmatch(pattern.get("Regex", ""))
    return pattern.get("String", "") if plain is None else plain[1]


def _longest_replacement(table: bytes) -> int:
    """Counts the characters of the longest replacement in a table of SentencePiece.

    Behind its size and its index, each replacement ends with a NUL.
    """
    replacements = table[4 + int.from_bytes(table[:4], "little") :]
    return max(1, *(len(each.decode(errors="replace")) for each in replacements.split(b"\0")))


def _state(part: Any) -> dict[str, Any] | None:  # noqa: ANN401 - a normalizer or pre-tokenizer
    return None if part is None else json.loads(part.__getstate__())


def _parts(part: Mapping[str, Any] | None) -> Iterator[Mapping[str, Any]]:
    """Yields a part, or the parts of a sequence."""
    if part is None:
        return
    if part["type"] != "Sequence":
        yield part
    for member in (*part.get("normalizers", ()), *part.get("pretokenizers", ())):
        yield from _parts(member)
