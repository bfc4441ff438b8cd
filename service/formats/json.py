"""Attention weights as JSON, without a Python number for each of them.

Every weight takes the same room, eight decimals, so that the text is put together by a few numpy
operations over many of them: one table turns the first four decimals into bytes, another the last
four, and rows, heads and layers begin with brackets of a fixed width. Such operations leave the
interpreter's lock to others, which an encoder that goes from number to number does not.

Legend: L layers, H heads, T tokens, N = L * H * T rows.
"""

import numpy as np
from numpy.typing import NDArray

DECIMALS = 8
_ONE = 10**DECIMALS
_HALF = 10**4
# float32 rounds a row's only weight to a little more than 1, at times.
_MOST = _ONE + 99
# Bytes of a weight, ", 0.1234" and "5678", and of the brackets before a row.
_UPPER, _LOWER, _BRACKETS = 8, 4, 8
_WEIGHT = _UPPER + _LOWER
# Weights at a time: what they need beside the text stays in the processor's cache.
_AT_ONCE = 8192


def _table(texts: list[str], dtype: type[np.unsignedinteger]) -> NDArray[np.unsignedinteger]:
    return np.frombuffer("".join(texts).encode("ascii"), dtype)


def _upper(before: str) -> NDArray[np.unsignedinteger]:
    texts = [f"{before}{number // _HALF}.{number % _HALF:04}" for number in range(_HALF + 1)]
    return _table(texts, np.uint64)


_FIRST, _NEXT = _upper(" ["), _upper(", ")
_LAST = _table([f"{number:04}" for number in range(_HALF)], np.uint32)
_ROW, _HEAD, _LAYER, _START = (
    _table([text.ljust(_BRACKETS)], np.uint64)[0] for text in ("],", "]],[", "]]],[[", "[[[")
)
_END = b"]]]]"


def encode_weights(
    attention: NDArray[np.float32], *, before: bytes = b"", after: bytes = b""
) -> memoryview:
    """The weights as nested JSON arrays, rounded to eight decimals.

    Args:
        attention: float32 [L, H, T, T], each from 0 to 1; no length is 0.
        before: bytes that stand in front of them, so that they need not be copied for it.
        after: bytes that stand behind them.

    Raises:
        ValueError: a weight is not a number from 0 to 1.
    """
    layers, heads, length, _ = attention.shape
    width = _BRACKETS + _WEIGHT * length
    end = _END + after
    whole = np.empty(len(before) + layers * heads * length * width + len(end), np.uint8)
    whole[: len(before)] = np.frombuffer(before, np.uint8)
    whole[-len(end) :] = np.frombuffer(end, np.uint8)
    text = whole[len(before) :]
    _spell(attention.reshape(-1, length), text[_BRACKETS:], stride=width)
    starts: NDArray[np.uint64] = np.ndarray(
        (layers, heads, length),
        np.uint64,
        text,
        strides=(heads * length * width, length * width, width),
    )
    starts[:] = _ROW
    starts[:, :, 0] = _HEAD
    starts[:, 0, 0] = _LAYER
    starts[0, 0, 0] = _START
    return whole.data


def format_weights(attention: NDArray[np.float32]) -> NDArray[np.bytes_]:
    """The same numbers one by one: ten bytes for each weight, in the shape of `attention`."""
    text = np.empty(attention.size * _WEIGHT, np.uint8)
    _spell(attention.reshape(-1, 1), text, stride=_WEIGHT)
    numbers = text.reshape(-1, _WEIGHT)[:, _WEIGHT - DECIMALS - 2 :]
    return np.ascontiguousarray(numbers).view(f"S{DECIMALS + 2}").reshape(attention.shape)


def _spell(rows: NDArray[np.float32], text: NDArray[np.uint8], *, stride: int) -> None:
    """Writes weights, the first of each row behind a bracket and each other one behind a comma.

    Args:
        rows: float32 [N, T].
        text: where they go, 12 bytes each.
        stride: bytes from the start of a row to that of the next.

    Raises:
        ValueError: a weight is not a number from 0 to 1.
    """
    count, length = rows.shape
    strides = (stride, _WEIGHT)
    upper: NDArray[np.uint64] = np.ndarray(rows.shape, np.uint64, text, 0, strides)
    lower: NDArray[np.uint32] = np.ndarray(rows.shape, np.uint32, text, _UPPER, strides)
    step = max(1, _AT_ONCE // length)
    for start in range(0, count, step):
        some = slice(start, start + step)
        # In float64: the product of two float32 numbers would be rounded before it is rounded.
        scaled = np.multiply(rows[some], _ONE, dtype=np.float64)  # [step, T]
        np.rint(scaled, out=scaled)
        if not (scaled.min() >= 0 and scaled.max() <= _MOST):  # NaN is neither
            raise ValueError("a weight of attention is not a number from 0 to 1")
        last = scaled.astype(np.intp)
        first = last // _HALF
        last -= first * _HALF
        # Nothing is out of range, so nothing is clipped; to look whether it is takes longer.
        upper[some] = _NEXT.take(first, mode="clip")
        upper[some, 0] = _FIRST.take(first[:, 0], mode="clip")
        lower[some] = _LAST.take(last, mode="clip")
