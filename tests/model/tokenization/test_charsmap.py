"""SentencePiece's table: a sound one is read, and no damaged one reaches the library."""

import base64
import struct
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tokenizers import normalizers
from transformers.convert_slow_tokenizer import import_protobuf

from model.errors import CheckpointError
from model.tokenization.charsmap import read_charsmap
from tests.families import sentence_pieces
from tests.matching import exactly

PATH = Path("tokenizer.json")
WHERE = f"{PATH}: normalizer.precompiled_charsmap"


def sound() -> bytes:
    model = import_protobuf().ModelProto()  # type: ignore[no-untyped-call]
    model.ParseFromString(sentence_pieces())
    table: bytes = model.normalizer_spec.precompiled_charsmap
    return table


SOUND = sound()


def read(table: bytes, *, most: int = 64) -> tuple[bytes, int]:
    return read_charsmap(PATH, "normalizer", base64.b64encode(table).decode(), most=most)


def table_of(units: list[int], replacements: bytes) -> bytes:
    packed = struct.pack(f"<{len(units)}I", *units)
    return struct.pack("<I", len(packed)) + packed + replacements


def letter(replacement: bytes, *, start: int = 0) -> bytes:
    """A table that replaces `a`, by what begins at `start`."""
    units = [0] * 512
    units[0] = 256 << 10 & ~0  # the children of the root are in the second block
    units[256 ^ ord("a")] = ord("a") | 1 << 8 | (1 << 10)
    units[256 ^ ord("a") ^ 1] = 1 << 31 | start
    return table_of(units, replacement)


def letter_that_leads_to(unit: int) -> bytes:
    """A table of 512 units in which `a` has no replacement, and its children begin at a unit."""
    units = [0] * 512
    units[0] = 256 << 10
    place = 256 ^ ord("a")
    units[place] = ord("a") | (place ^ unit) << 10
    return table_of(units, b"")


def test_the_table_of_sentencepiece_is_read_as_it_is() -> None:
    assert read(SOUND) == (SOUND, 18)


def test_a_table_by_hand() -> None:
    table = letter(b"bcd\0")
    assert read(table) == (table, 3)
    assert normalizers.Precompiled(table).normalize_str("xa") == "xbcd"


@pytest.mark.parametrize(
    ("table", "fault"),
    [
        (b"", "is damaged: 0 bytes of units do not fit into 0"),
        (b"\x08\0\0\0abcd", "is damaged: 8 bytes of units do not fit into 8"),
        (SOUND[:1000], "is damaged: 179200 bytes of units do not fit into 1000"),
        (
            table_of([0] * 256, b"\xff"),
            "is damaged: its replacements are not UTF-8: invalid start byte",
        ),
        (table_of([0] * 255, b"x"), "points outside itself: to unit 0 of 255"),
        (letter_that_leads_to(4096), "points outside itself: to unit 4096 of 512"),
        (letter(b"bcd\0", start=5), "points to no character: byte 5 of 4"),
        (letter("é\0".encode(), start=1), "points to no character: byte 1 of 3"),
        (letter(b"b" * 65 + b"\0"), "holds a replacement of 65 characters, at most 64"),
        (letter(b"b" * 1000), "holds a replacement of more than 64 characters"),
        (b"\0" * 2_000_001, "has 2000001 bytes, at most 2000000 are read"),
    ],
)
def test_a_damaged_table_is_refused(table: bytes, fault: str) -> None:
    with pytest.raises(CheckpointError, match=exactly(f"{WHERE} {fault}")):
        read(table)


@pytest.mark.parametrize("encoded", [None, 5, "not base64!"])
def test_what_is_no_base64_is_refused(encoded: object) -> None:
    with pytest.raises(CheckpointError, match="Base64"):
        read_charsmap(PATH, "normalizer", encoded, most=64)


@settings(max_examples=300, deadline=None)
@given(
    st.lists(st.tuples(st.integers(4, len(SOUND) - 1), st.integers(0, 255)), min_size=1),
    st.text(min_size=1),
)
def test_a_table_that_is_accepted_breaks_on_no_text(
    changes: list[tuple[int, int]], text: str
) -> None:
    """Damaged at some bytes, it is refused or harmless."""
    table = bytearray(SOUND)
    for place, value in changes:
        table[place] = value
    try:
        _, growth = read(bytes(table))
    except CheckpointError:
        return
    normalized = normalizers.Precompiled(bytes(table)).normalize_str(text + "\u00e9\ufb01\u3300")
    assert len(normalized) <= growth * (len(text) + 3)
