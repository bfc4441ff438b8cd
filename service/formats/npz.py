"""Writes views of attention as an archive of NumPy arrays, for `numpy.load`.

No array holds Python objects, so nothing has to be unpickled.
"""

import io
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from model import ModelInfo
from model.explain.views import View

Arrays = Mapping[str, NDArray[Any]]

_NO_WORD = -1


def npz_arrays(info: ModelInfo, view: View, *, dtype: str) -> dict[str, NDArray[Any]]:
    """Returns the arrays of one view by name; docs/reference/http.md lists them."""
    tokens, prediction = view.tokens, view.prediction
    words = [_NO_WORD if token.word is None else token.word for token in tokens]
    arrays: dict[str, NDArray[Any]] = {
        "attention": view.attention.astype(dtype),  # [L, H, W, W]
        "tokens": np.array([token.text for token in tokens], np.str_),
        "start": np.array([token.start for token in tokens], np.int32),
        "end": np.array([token.end for token in tokens], np.int32),
        "special": np.array([token.special for token in tokens], np.bool_),
        "word": np.array(words, np.int32),
        "layers": np.array(view.layers, np.int32),
        "heads": np.array(view.heads, np.int32),
        "view": np.array(view.name),
        "labels": np.array(list(prediction.probabilities), np.str_),
        "probabilities": np.array(list(prediction.probabilities.values()), np.float64),
        "token_count": np.array(prediction.token_count, np.int32),
        "truncated": np.array(prediction.truncated),
        "model": np.array([info.name, info.version], np.str_),
    }
    if prediction.warnings:
        arrays["warnings"] = np.array(prediction.warnings, np.str_)
    if view.strongest is not None:
        arrays["strongest"] = view.strongest.keys  # [L, H, W]
        arrays["strongest_weights"] = view.strongest.weights.astype(dtype)
    if view.windows is not None:
        arrays["window"] = np.array(view.window, np.int32)
        arrays["windows"] = np.array(view.windows, np.int32)
    return arrays


def npz_archive(parts: Sequence[Arrays], *, numbered: bool) -> bytes:
    """Writes an archive of one view, or of several, whose names are numbered: `attention_0`."""
    buffer = io.BytesIO()
    if numbered:
        arrays = {
            f"{name}_{number}": array
            for number, part in enumerate(parts)
            for name, array in part.items()
        }
    else:
        (arrays,) = (dict(part) for part in parts)
    np.savez(buffer, allow_pickle=False, **arrays)
    return buffer.getvalue()
