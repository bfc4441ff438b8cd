"""Attention weights as JSON, without a Python number for each of them.

Every weight takes the same room, eight decimals, so that the text is put together by a few numpy
operations over all of them: tables turn two, four and two digits into bytes, and rows, heads and
layers begin with brackets of a fixed width. Such operations leave the interpreter's lock to
others, which an encoder that goes from number to number does not.

Legend: L layers, H heads, T tokens, N = L * H * T rows.
"""

import numpy as np
from numpy.typing import NDArray

DECIMALS = 8
_ONE = 10**DECIMALS
# float32 rounds a row's only weight to a little more than 1, at times.
_MOST = _ONE + 99
_WORDS = 3  # of four bytes each, for one weight: "0.12", "3456", "78, "
_HEAD_WORDS = 2  # before the first weight of a row


def _table(texts: list[str]) -> NDArray[np.uint32]:
    return np.frombuffer("".join(texts).encode("ascii"), dtype=np.uint32)


_FIRST = _table([f"{number // 100}.{number % 100:02}" for number in range(101)])
_MIDDLE = _table([f"{number:04}" for number in range(10_000)])
_LAST = _table([f"{number:02}, " for number in range(100)])
_END_OF_ROW = _table([f"{number:02}] " for number in range(100)])
_ROW, _HEAD, _LAYER, _START = (
    _table([text.ljust(4 * _HEAD_WORDS)]) for text in (",[", "],[[", "]],[[[", "[[[[")
)


def encode_weights(attention: NDArray[np.float32]) -> bytes:
    """The weights as nested JSON arrays, rounded to eight decimals.

    Args:
        attention: float32 [L, H, T, T], each from 0 to 1; no length is 0.

    Raises:
        ValueError: a weight is not a number from 0 to 1.
    """
    layers, heads, length, _ = attention.shape
    rows = attention.reshape(-1, length)  # [N, T]
    text = np.empty((len(rows), _HEAD_WORDS + _WORDS * length), np.uint32)
    weights = text[:, _HEAD_WORDS:].reshape(len(rows), length, _WORDS)
    last = _spell(rows, weights)
    weights[:, -1, 2] = _END_OF_ROW[last[:, -1]]
    starts = text.reshape(layers, heads, length, -1)[..., :_HEAD_WORDS]
    starts[:, :, 1:] = _ROW
    starts[:, 1:, 0] = _HEAD
    starts[1:, 0, 0] = _LAYER
    starts[0, 0, 0] = _START
    return text.tobytes() + b"]]]"


def format_weights(attention: NDArray[np.float32]) -> NDArray[np.bytes_]:
    """The same numbers one by one: ten bytes for each weight, in the shape of `attention`."""
    rows = attention.reshape(1, -1)
    weights = np.empty((*rows.shape, _WORDS), np.uint32)
    _spell(rows, weights)
    return weights.view(f"S{4 * _WORDS}").astype(f"S{DECIMALS + 2}").reshape(attention.shape)


def _spell(rows: NDArray[np.float32], weights: NDArray[np.uint32]) -> NDArray[np.int32]:
    """Writes each weight with a comma into its words [N, T, 3]; returns the last two digits."""
    # In float64: the product of two float32 numbers would be rounded before it is rounded.
    scaled = np.rint(rows * np.float64(_ONE))  # [N, T]
    if not (scaled.min() >= 0 and scaled.max() <= _MOST):  # NaN is neither
        raise ValueError("a weight of attention is not a number from 0 to 1")
    whole = scaled.astype(np.int32)
    upper = whole // 100
    first = upper // 10_000
    weights[:, :, 0] = _FIRST[first]
    weights[:, :, 1] = _MIDDLE[upper - first * 10_000]
    last: NDArray[np.int32] = whole - upper * 100
    weights[:, :, 2] = _LAST[last]
    return last
