"""Writes answers as JSON, straight from dataclasses and arrays.

Every weight has eight decimals and the same width, so that a few NumPy operations write many: one
table turns the first four decimals into bytes, another the last four. Unlike an encoder, these
operations release the interpreter's lock. Legend: L layers, H heads, T tokens, N = L * H * T rows.
"""

from collections.abc import Sequence

import numpy as np
import orjson
from numpy.typing import NDArray

from model import Attribution, HeadImportance, HeadSteps, ModelInfo
from model.explain.leave_one_out import LeaveOutAttribution
from model.explain.units import UnitLevel
from model.explain.views import RAW, View

JSON = "application/json"

DECIMALS = 8
_ONE = 10**DECIMALS
_HALF = 10**4
# float32 can round the only weight of a row to a little more than 1.
_MOST = _ONE + 99
# Bytes of a weight, ", 0.1234" and "5678", and of the brackets before a row.
_UPPER, _LOWER, _BRACKETS = 8, 4, 8
_WEIGHT = _UPPER + _LOWER
# Weights in one step: their working memory fits the processor's cache.
_STEP = 8192


def attributions_answer(
    info: ModelInfo, attribution: Attribution | LeaveOutAttribution, *, level: UnitLevel
) -> dict[str, object]:
    """Returns the content of an answer of `/attributions`."""
    content: dict[str, object] = {
        "model": _name(info),
        "prediction": attribution.prediction.members(),
        "view": attribution.method + (f"+{level}" if level != "token" else ""),
        "label": attribution.label,
        "tokens": attribution.tokens,
        "attributions": attribution.attributions.tolist(),
        "steps": attribution.steps,
        "value": attribution.value,
        "baseline_value": attribution.baseline_value,
        "gap": attribution.gap,
    }
    if isinstance(attribution, LeaveOutAttribution):
        content |= {"units": attribution.units, "partial": attribution.partial}
    return content


def importance_answer(info: ModelInfo, heads: HeadImportance) -> dict[str, object]:
    """Returns the content of an answer of `/importance`."""
    return {
        "model": _name(info),
        "prediction": heads.prediction.members(),
        "view": "head_importance",
        "label": heads.label,
        "layers": list(range(info.num_layers)),
        "heads": list(range(info.num_heads)),
        "importance": heads.importance.tolist(),
    }


def steps_body(info: ModelInfo, steps: HeadSteps) -> bytes:
    """Writes the answer of `/attention/steps`; each number has the digits that float32 needs."""
    encoding = steps.encoding
    content: dict[str, object] = {"model": _name(info)}
    if encoding.windows is not None:
        content |= {"window": encoding.window, "windows": encoding.windows}
    content["tokens"] = encoding.tokens
    content |= {"layer": steps.layer, "head": steps.head, "query": steps.query}
    content["scale"] = steps.scale
    for name in ("query_vector", "keys", "scores", "weights", "values", "result"):
        content[name] = np.ascontiguousarray(getattr(steps, name))
    return orjson.dumps(content, option=orjson.OPT_SERIALIZE_NUMPY)


def attention_body(info: ModelInfo, view: View) -> memoryview:
    """Writes the answer of `/attention` for one sentence; raises as `encode_weights`."""
    content: dict[str, object] = {
        "model": _name(info),
        "prediction": view.prediction.members(),
    }
    if view.windows is not None:
        content |= {"window": view.window, "windows": view.windows}
    content |= {"tokens": view.tokens, "layers": view.layers, "heads": view.heads}
    if view.name != RAW:
        content["view"] = view.name
    if view.strongest is not None:
        content["strongest"] = view.strongest.keys.tolist()
        rounded = np.round(view.strongest.weights.astype(np.float64), DECIMALS)
        content["strongest_weights"] = rounded.tolist()
    before = orjson.dumps(content)[:-1] + b',"attention":'
    return encode_weights(view.attention, before=before, after=b"}")


def join_list(parts: Sequence[memoryview]) -> bytes:
    """Joins the answers for several sentences to a list."""
    # In one copy: these answers are the largest.
    pieces: list[bytes | memoryview] = [b"["]
    for part in parts:
        pieces += [part, b","]
    pieces[-1] = b"]"
    return b"".join(pieces)


def _name(info: ModelInfo) -> dict[str, str]:
    return {"name": info.name, "version": info.version}


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
    """Writes weights as nested JSON arrays, rounded to eight decimals.

    Args:
        attention: float32 [L, H, T, T], each from 0 to 1; no length is 0.
        before: bytes to write in front of them, which saves a copy of all.
        after: bytes to write behind them.

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


def _spell(rows: NDArray[np.float32], text: NDArray[np.uint8], *, stride: int) -> None:
    """Writes rows [N, T], a bracket before the first of each and commas before the others."""
    count, length = rows.shape
    strides = (stride, _WEIGHT)
    upper: NDArray[np.uint64] = np.ndarray(rows.shape, np.uint64, text, 0, strides)
    lower: NDArray[np.uint32] = np.ndarray(rows.shape, np.uint32, text, _UPPER, strides)
    step = max(1, _STEP // length)
    for start in range(0, count, step):
        some = slice(start, start + step)
        # In float64: a product in float32 would be rounded twice.
        scaled = np.multiply(rows[some], _ONE, dtype=np.float64)  # [step, T]
        np.rint(scaled, out=scaled)
        if not (scaled.min() >= 0 and scaled.max() <= _MOST):  # NaN is neither
            raise ValueError("a weight of attention is not a number from 0 to 1")
        last = scaled.astype(np.intp)
        first = last // _HALF
        last -= first * _HALF
        # No index is out of range; with `clip` NumPy does not check them, which takes longer.
        upper[some] = _NEXT.take(first, mode="clip")
        upper[some, 0] = _FIRST.take(first[:, 0], mode="clip")
        lower[some] = _LAST.take(last, mode="clip")
