"""Checks that a `tokenizer.json` holds only parts that are known to do no harm.

Whoever writes the file chooses what runs on each text. A part can multiply a text until the memory
is full, or search for a pattern for ever. So every kind that is not listed here is refused, and
what is listed has bounds.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any

from model.errors import CheckpointError, UnsupportedCheckpointError
from model.tokenization.charsmap import read_charsmap
from model.tokenization.excerpt import MARGIN
from model.tokenization.roberta import splits_special_tokens
from model.tokenization.tokenizer_growth import GROWTH, growth_of, members_of_set

# The two patterns that training writes, beside sets of characters such as `[ab]`. Neither repeats.
NEGATION = r"(?i)n't\b"
NOT_LETTER_OR_DIGIT = r"[^\p{L}\p{N}]"
# What the normalizers of SentencePiece's vocabularies replace by one space.
SPACES = " {2,}"
# A text never becomes longer than this many times its characters.
MOST_GROWTH = 64

_REPLACE, _SEQUENCE, _PRECOMPILED = "Replace", "Sequence", "Precompiled"


@dataclass(frozen=True, slots=True)
class _Slot:
    """What one entry of the file may hold.

    Args:
        kinds: the values of `type`.
        members: where a Sequence has its parts.
    """

    kinds: Collection[str]
    members: str = ""


_SLOTS: Mapping[str, _Slot] = MappingProxyType(
    {
        "normalizer": _Slot((*GROWTH, _PRECOMPILED, _REPLACE, _SEQUENCE), "normalizers"),
        "pre_tokenizer": _Slot(
            (
                "BertPreTokenizer",
                "ByteLevel",
                "CharDelimiterSplit",
                "Digits",
                "Metaspace",
                "Punctuation",
                _SEQUENCE,
                "Split",
                "UnicodeScripts",
                "Whitespace",
                "WhitespaceSplit",
            ),
            "pretokenizers",
        ),
        "post_processor": _Slot(
            ("BertProcessing", "ByteLevel", "RobertaProcessing", _SEQUENCE, "TemplateProcessing"),
            "processors",
        ),
        "decoder": _Slot(
            (
                "BPEDecoder",
                "ByteFallback",
                "ByteLevel",
                "Fuse",
                "Metaspace",
                _REPLACE,
                _SEQUENCE,
                "Strip",
                "WordPiece",
            ),
            "decoders",
        ),
        "model": _Slot(("BPE", "Unigram", "WordLevel", "WordPiece")),
    }
)
_MOST_PARTS, _MOST_DEPTH = 64, 4
_MOST_PATTERN, _MOST_CONTENT = 256, 32
_MOST_ADDED, _MOST_TOKEN = 10_000, 512
# The library counts up to the largest id when it writes a vocabulary. XLM-RoBERTa has 250,002.
_MOST_IDS = 10_000_000
_MOST_PREFIX = 16
_PREFIXES = ("continuing_subword_prefix", "end_of_word_suffix")


def check_parts(path: Path, content: Mapping[str, Any]) -> None:
    """Refuses what could fill the memory or run for ever.

    Args:
        path: the file to name in the error.
        content: the JSON object of `tokenizer.json`.

    Raises:
        CheckpointError: a part goes beyond its bounds; the message names its field.
        UnsupportedCheckpointError: a part is of a kind that is not allowed.
    """
    parts = {name: list(_parts(path, content, name)) for name in _SLOTS}
    for place, part in parts["normalizer"] + parts["decoder"]:
        if part["type"] == _REPLACE:
            _check_replacement(path, place, part)
    for place, part in parts["pre_tokenizer"]:
        if part["type"] == "Split":
            _pattern(path, f"{place}.pattern", part.get("pattern"))
    growth = growth_of(list(_steps(path, parts["normalizer"])))
    if growth > MOST_GROWTH:
        raise CheckpointError(
            path,
            f"normalizer can make {growth} characters of one, at most {MOST_GROWTH} are allowed",
        )
    for place, part in parts["model"]:
        _check_model(path, place, part)
    added = content.get("added_tokens") or []
    if not isinstance(added, list):
        raise CheckpointError(path, "added_tokens must be a list")
    names = [token.get("content") if isinstance(token, dict) else token for token in added]
    check_added_tokens(path, "added_tokens", names)


def _steps(
    path: Path, parts: Iterable[tuple[str, Mapping[str, Any]]]
) -> Iterator[Mapping[str, Any]]:
    """Yields the steps of a normalizer; one with a table gets the growth that was counted there."""
    for place, part in parts:
        if part["type"] == _PRECOMPILED:
            table = part.get("precompiled_charsmap")
            _, growth = read_charsmap(path, place, table, most=MOST_GROWTH)
            yield {"type": _PRECOMPILED, "growth": growth}
        elif part["type"] != _SEQUENCE:
            yield part


def check_added_tokens(path: Path, field: str, tokens: Collection[object]) -> None:
    """Refuses too many added tokens, and ones that are too long.

    Args:
        path: the file to name in the error.
        field: where they stand in it.
        tokens: their texts.

    Raises:
        CheckpointError: there are too many, or one is no string, empty or too long.
    """
    if len(tokens) > _MOST_ADDED:
        raise CheckpointError(
            path, f"{field} holds {len(tokens)} tokens, at most {_MOST_ADDED} are allowed"
        )
    for token in tokens:
        if not isinstance(token, str) or not 1 <= len(token) <= _MOST_TOKEN:
            got = f"{len(token)} characters" if isinstance(token, str) else repr(token)
            raise CheckpointError(
                path, f"{field} holds a token of {got}, must have 1 to {_MOST_TOKEN} characters"
            )


def check_vocabulary(path: Path, field: str, tokens: Collection[object]) -> None:
    """Refuses a token that is too long: answers repeat it, and each text is compared with it.

    Args:
        path: the file to name in the error.
        field: where they stand in it.
        tokens: their texts.

    Raises:
        CheckpointError: one is too long.
    """
    longest = max((len(token) for token in tokens if isinstance(token, str)), default=0)
    if longest > _MOST_TOKEN:
        raise CheckpointError(
            path,
            f"{field} holds a token of {longest} characters, must have at most {_MOST_TOKEN}",
        )


def check_ids(path: Path, field: str, vocabulary: Mapping[str, object]) -> None:
    """Refuses an id that is no whole number, or one so large that counting up to it takes long.

    Args:
        path: the file to name in the error.
        field: where the vocabulary stands in it.
        vocabulary: tokens with their ids.

    Raises:
        CheckpointError: an id is wrong.
    """
    for token, index in vocabulary.items():
        if type(index) is not int or not 0 <= index < _MOST_IDS:
            raise CheckpointError(
                path,
                f"{field} gives the token {token[:100]!r} the id {index!r}, must be a whole number "
                f"from 0 to {_MOST_IDS - 1}",
            )


def _parts(
    path: Path, content: Mapping[str, Any], name: str
) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Yields each part of a slot in the order of use, with its place.

    Raises:
        CheckpointError: there are too many, too deep, or one is not listed.
    """
    slot = _SLOTS[name]
    found = 0
    waiting = [(name, content.get(name), 1)]
    if waiting[0][1] is None and name != "model":
        return
    while waiting:
        place, part, depth = waiting.pop()
        found += 1
        if found > _MOST_PARTS:
            raise CheckpointError(path, f"{name} has more than {_MOST_PARTS} parts")
        if depth > _MOST_DEPTH:
            raise CheckpointError(path, f"{place} is nested more than {_MOST_DEPTH} deep")
        if not isinstance(part, dict):
            raise CheckpointError(path, f"{place} must be an object, is {type(part).__name__}")
        kind = part.get("type")
        if not isinstance(kind, str) or kind not in slot.kinds:
            raise UnsupportedCheckpointError(
                path, f"{place}.type is {kind!r}, only {', '.join(slot.kinds)} can be read"
            )
        yield place, part
        if kind == _SEQUENCE:
            members = part.get(slot.members)
            if not isinstance(members, list):
                raise CheckpointError(path, f"{place}.{slot.members} must be a list")
            waiting += [
                (f"{place}.{slot.members}[{number}]", member, depth + 1)
                for number, member in reversed(list(enumerate(members[: _MOST_PARTS + 1])))
            ]


def _check_replacement(path: Path, place: str, part: Mapping[str, Any]) -> None:
    _pattern(path, f"{place}.pattern", part.get("pattern"))
    content = part.get("content")
    if not isinstance(content, str) or len(content) > _MOST_CONTENT:
        got = f"{len(content)} characters" if isinstance(content, str) else repr(content)
        raise CheckpointError(
            path, f"{place}.content has {got}, must be a string of at most {_MOST_CONTENT}"
        )


def _pattern(path: Path, place: str, pattern: object) -> None:
    kind, value = None, None
    if isinstance(pattern, dict) and len(pattern) == 1:
        ((kind, value),) = pattern.items()
    if kind not in ("String", "Regex") or not isinstance(value, str):
        raise CheckpointError(path, f"{place} must be an object with String or Regex")
    if not 1 <= len(value) <= _MOST_PATTERN:
        raise CheckpointError(
            path,
            f"{place}.{kind} has {len(value)} characters, must have 1 to {_MOST_PATTERN}",
        )
    known = (NEGATION, NOT_LETTER_OR_DIGIT, SPACES)
    is_known = value in known or members_of_set(value) is not None or splits_special_tokens(value)
    if kind == "Regex" and not is_known:
        raise UnsupportedCheckpointError(
            path,
            f"{place}.Regex is {value!r}, only a set of plain characters such as [ab], "
            f"{', '.join(known)} and <(?=name>) can be read: a search could run for ever",
        )


def _check_model(path: Path, place: str, model: Mapping[str, Any]) -> None:
    for name in _PREFIXES:
        prefix = model.get(name)
        if isinstance(prefix, str) and len(prefix) > _MOST_PREFIX:
            raise CheckpointError(
                path,
                f"{place}.{name} has {len(prefix)} characters, must have at most {_MOST_PREFIX}",
            )
    if model["type"] == "WordPiece":
        # The effort for a word grows with its square. What an excerpt leaves out rests on it too.
        most = model.get("max_input_chars_per_word", 100)
        if type(most) is not int or not 1 <= most <= MARGIN:
            raise CheckpointError(
                path, f"{place}.max_input_chars_per_word is {most!r}, must be from 1 to {MARGIN}"
            )
    if model.get("dropout"):
        raise CheckpointError(
            path,
            f"{place}.dropout is {model['dropout']!r}, must be null: a text must always give the "
            "same tokens",
        )
    vocabulary = model.get("vocab")
    if isinstance(vocabulary, dict):
        check_ids(path, f"{place}.vocab", vocabulary)
    if isinstance(vocabulary, list):  # of Unigram: pairs of a token and its score
        vocabulary = [pair[0] for pair in vocabulary if isinstance(pair, list) and pair]
    if isinstance(vocabulary, dict | list):
        check_vocabulary(path, f"{place}.vocab", vocabulary)
