"""Writes views of attention as a CSV table with a line for each weight.

The lines of one map are written once, with ten bytes left for each weight, and NumPy copies the
digits of all weights into their places. A text that a spreadsheet would compute as a formula gets
an apostrophe in front (OWASP, "CSV Injection"), and so does one that begins with an apostrophe.

Legend: L layers, H heads, W tokens or words.
"""

import csv
import io
import re
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from service.formats.json import format_weights
from service.formats.views import View

COLUMNS = ("sentence", "layer", "head", "query", "key", "query_text", "key_text", "weight")

# Stand for what differs between maps and rows; UTF-8 has none of these bytes.
_PREFIX, _QUERY, _TEXT = b"\xfd", b"\xfe", b"\xff"
# What begins a formula, in full width too, and what a spreadsheet may skip before it.
_FORMULA = r"\x00-\x20=+\-@\ufeff\uff0b\uff0d\uff1d\uff20"
# Where a cell may begin: some spreadsheets divide cells by these, even within quotes.
_DIVIDER = r";,|\t\r\n"
_RISKY = re.compile(rf"\A(?=[{_FORMULA}'])|(?<=[{_DIVIDER}])(?=[{_FORMULA}'\"])")
_DIGITS = 10
_END = b"0" * _DIGITS + b"\r\n"


def csv_lines(view: View, number: int) -> bytearray:
    """Writes the lines of the view of one sentence, by its index, without the header."""
    digits = format_weights(view.attention)  # [L, H, W, W]
    texts = [_quoted(_RISKY.sub("'", token.text)).encode("utf-8") for token in view.tokens]
    row = b"".join(
        b"%b,%b,%d,%b,%b,%b" % (_PREFIX, _QUERY, key, _TEXT, text, _END)
        for key, text in enumerate(texts)
    )
    one_map = b"".join(
        row.replace(_QUERY, b"%d" % query).replace(_TEXT, text) for query, text in enumerate(texts)
    )
    prefixes = [
        f"{number},{_number(layer)},{_number(head)}".encode("ascii")
        for layer in view.layer_names
        for head in view.head_names
    ]
    lines = bytearray().join(one_map.replace(_PREFIX, prefix) for prefix in prefixes)
    _fill(lines, digits.ravel(), _ends(prefixes, texts))
    return lines


def _ends(prefixes: Sequence[bytes], texts: Sequence[bytes]) -> NDArray[np.intp]:
    """Where each line ends, [L * H * W * W]."""
    numbers = np.array([len(b"%d" % number) for number in range(len(texts))])
    named = numbers + np.array([len(text) for text in texts])  # [W]
    commas = 5
    rest = named[:, None] + named + commas + len(_END)  # [W, W]
    lengths = np.array([len(prefix) for prefix in prefixes])[:, None, None] + rest
    return np.cumsum(lengths, dtype=np.intp)


def _fill(lines: bytearray, digits: NDArray[np.bytes_], ends: NDArray[np.intp]) -> None:
    """Writes the digits of each weight before the end of its line."""
    # A window of ten bytes at every byte of the text.
    windows: NDArray[np.bytes_] = np.ndarray(
        (len(lines) - _DIGITS + 1,), f"S{_DIGITS}", lines, strides=(1,)
    )
    windows[ends - len(_END)] = digits


def csv_table(parts: Sequence[bytes | bytearray]) -> bytes:
    """Joins a header and the lines of each view."""
    return b"".join([",".join(COLUMNS).encode("ascii"), b"\r\n", *parts])


def _number(number: int | None) -> str:
    return "" if number is None else str(number)


def _quoted(text: str) -> str:
    buffer = io.StringIO(newline="")
    csv.writer(buffer).writerow(["", text])  # a row of one empty field would be quoted
    return buffer.getvalue()[1:-2]
