"""Checks the table of a `Precompiled` normalizer, which is SentencePiece's rules in compiled form.

The library `tokenizers` follows the numbers of the table without looking whether they point outside
it, and breaks on the text that leads there. So the table is walked here as any text could walk it.

The table is a double array (Aoe 1989; the form of darts-clone) of 32-bit units, and a string with
the replacements, each up to a NUL. A unit has in its bits 0 to 7 and 31 the byte that leads to it
(31: a value instead), in bit 8 whether a replacement ends here, and in the others where its
children are.
"""

import base64
import binascii
import struct
from collections import defaultdict
from pathlib import Path

from model.errors import CheckpointError

# XLM-RoBERTa's has 240,000 bytes.
_MOST_BYTES = 2_000_000
# The library looks up characters, and groups of them that stand for one, of less than six bytes.
_LONGEST_KEY = 5
_BLOCK = 0xFF
_NO_VALUE = 0x7FFF_FFFF
_CONTINUES = 0b1000_0000


def read_charsmap(path: Path, place: str, encoded: object, *, most: int) -> tuple[bytes, int]:
    """Reads the table of a normalizer, and checks that no text can lead outside it.

    Args:
        path: the file to name in the error.
        place: where the normalizer stands in it.
        encoded: `precompiled_charsmap`, in Base64.
        most: the most characters of a replacement.

    Returns:
        The table, and the most characters that it makes of one.

    Raises:
        CheckpointError: the table is missing, too large or damaged, or a replacement is too long.
    """
    where = f"{place}.precompiled_charsmap"
    if not isinstance(encoded, str) or len(encoded) > 2 * _MOST_BYTES:
        got = f"{len(encoded)} characters" if isinstance(encoded, str) else repr(encoded)
        raise CheckpointError(path, f"{where} has {got}, must be Base64 of at most {_MOST_BYTES}")
    try:
        table = base64.b64decode(encoded, validate=True)
    except (binascii.Error, ValueError) as error:
        raise CheckpointError(path, f"{where} is not Base64: {error}") from error
    if len(table) > _MOST_BYTES:
        raise CheckpointError(
            path, f"{where} has {len(table)} bytes, at most {_MOST_BYTES} are read"
        )
    try:
        return table, _walk(table, most)
    except _DamageError as error:
        raise CheckpointError(path, f"{where} {error}") from error


class _DamageError(Exception):
    """The table is damaged; the message says how."""


def _walk(table: bytes, most: int) -> int:
    """Follows every key; returns the most characters of a replacement, at least 1."""
    units, replacements = _split(table)
    children: defaultdict[int, list[int]] = defaultdict(list)
    for place, unit in enumerate(units):
        label = unit & 0x8000_00FF
        if 0 < label <= _BLOCK:
            children[place ^ label].append(place)
    growth = 1
    reached = {_next(0, units[0])}
    for _ in range(_LONGEST_KEY):
        further: set[int] = set()
        for base in reached:
            # A text may have any byte next, and bytes differ within a block.
            if base | _BLOCK >= len(units):
                raise _DamageError(f"points outside itself: to unit {base} of {len(units)}")
            for place in children.get(base, ()):
                unit = units[place]
                target = _next(place, unit)
                if unit >> 8 & 1:
                    if target >= len(units):
                        raise _DamageError(
                            f"points outside itself: to unit {target} of {len(units)}"
                        )
                    growth = max(growth, _measure(replacements, units[target] & _NO_VALUE, most))
                further.add(target)
        # One without children is checked too: the library looks there for the next byte.
        reached = further
    return growth


def _split(table: bytes) -> tuple[tuple[int, ...], bytes]:
    """Splits the table into its units and its replacements."""
    size = int.from_bytes(table[:4], "little") if len(table) >= 4 else 0
    if size < 4 or size % 4 or 4 + size > len(table):
        raise _DamageError(f"is damaged: {size} bytes of units do not fit into {len(table)}")
    replacements = table[4 + size :]
    try:
        replacements.decode()
    except UnicodeDecodeError as error:
        raise _DamageError(f"is damaged: its replacements are not UTF-8: {error.reason}") from error
    return struct.unpack(f"<{size // 4}I", table[4 : 4 + size]), replacements


def _next(place: int, unit: int) -> int:
    """Where the children of a unit are, before the byte that chooses one of them."""
    return place ^ (unit >> 10 << ((unit & 0x200) >> 6))


def _measure(replacements: bytes, start: int, most: int) -> int:
    """Counts the characters of a replacement."""
    first = replacements[start : start + 1]
    if start > len(replacements) or (first and first[0] & 0b1100_0000 == _CONTINUES):
        raise _DamageError(f"points to no character: byte {start} of {len(replacements)}")
    longest = start + 4 * most + 1
    end = replacements.find(b"\0", start, longest)
    if end < 0 and longest < len(replacements):
        raise _DamageError(f"holds a replacement of more than {most} characters")
    found = replacements[start : end if end >= 0 else None].decode()
    if len(found) > most:
        raise _DamageError(f"holds a replacement of {len(found)} characters, at most {most}")
    return len(found)
