"""Turns a row into values, and says in one way why it cannot be used.

Every message is safe to log: none repeats what the row holds.
"""

import json
import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import orjson

from model.errors import BlankTextError, InputError
from model.tables.lines import NOT_UTF8
from model.tables.raw_rows import RawRow, cells_of, is_utf8
from model.tokenization.tokenizer import check_text

_LONG_NUMBER = re.compile(rb"[0-9]{19}")  # from here orjson may round an integer
_SURROGATE = re.compile("[\ud800-\udfff]")
_MOST_DEPTH = 250  # below what the writers of JSON nest
_TOO_DEEP = f"is nested deeper than {_MOST_DEPTH} levels, the most that is read"

MISSING = object()  # stands for a key that a row of JSON Lines does not have


@dataclass(frozen=True, slots=True)
class NotText:
    """Stands for a value of a type that is neither text nor, for a label, a number."""

    kind: str

    def __repr__(self) -> str:
        return self.kind


def read_cells(raw: RawRow, count: int) -> list[str]:
    """Returns the `count` cells of a row, without empty ones of Excel, or raises ValueError."""
    if raw.error is not None:
        raise ValueError(raw.error)
    cells = cells_of(raw)
    if len(cells) > count and not any(map(str.strip, cells[count:])):
        cells = cells[:count]
    if len(cells) != count:
        raise ValueError(f"the header has {count} columns, this row has {len(cells)}")
    if not is_utf8(raw.content):
        raise ValueError(NOT_UTF8)
    return cells


def read_record(content: bytes) -> dict[str, Any]:
    """Reads a line of JSON Lines; integers keep all digits. Raises ValueError with the reason."""
    try:
        record = orjson.loads(content)
        if _LONG_NUMBER.search(content):
            record = _read_exactly(content)
    except orjson.JSONDecodeError:
        record = _read_exactly(content)
    if not isinstance(record, dict):
        raise ValueError(f"must be a JSON object, is {type(record).__name__}")  # noqa: TRY004
    if content.count(b"[") + content.count(b"{") > _MOST_DEPTH:
        _check_depth(record)
    return record


def text_fault(text: object) -> str | None:
    """Returns why a value is no text to classify; None if it is one."""
    if text is None:
        return "the text is null"
    if isinstance(text, bytes):
        return "the text is not UTF-8"
    if not isinstance(text, str):
        kind = text.kind if isinstance(text, NotText) else type(text).__name__
        return f"the text must be a string, is {kind}"
    try:
        check_text(text)
    except BlankTextError:
        return "the text is blank: give the row a text, or leave it out"
    except InputError as error:
        return str(error)
    return None


def to_json(value: object) -> bytes:
    """Writes a value of `read_record` as it was read, but null for NaN, which JSON lacks."""
    try:
        return orjson.dumps(value)
    except orjson.JSONEncodeError:  # a long integer or half of a surrogate pair
        finite = json.loads(json.dumps(value), parse_constant=lambda _: None)
        text = json.dumps(finite, ensure_ascii=False, separators=(",", ":"))
        return text.encode(errors="backslashreplace")


def _read_exactly(content: bytes) -> object:
    try:
        record = json.loads(content.decode())
    except UnicodeDecodeError as error:
        raise ValueError(NOT_UTF8) from error
    except json.JSONDecodeError as error:
        fault = error.msg.removesuffix(": ").removesuffix(" at")
        raise ValueError(f"is not JSON: {fault} at character {error.pos + 1}") from error
    except RecursionError as error:
        raise ValueError(_TOO_DEEP) from error
    except ValueError as error:
        raise ValueError("is not JSON that is read: a number has too many digits") from error
    if isinstance(record, dict) and any(map(_SURROGATE.search, record)):
        raise ValueError("has a key that is not valid Unicode")
    return record


def _check_depth(record: object) -> None:
    level: Iterable[Any] = [record]
    for _ in range(_MOST_DEPTH):
        values = (each.values() if isinstance(each, dict) else each for each in level)
        inner = [value for each in values for value in each]
        level = [value for value in inner if isinstance(value, dict | list)]
    if level:
        raise ValueError(_TOO_DEEP)
