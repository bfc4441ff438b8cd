"""Loads the compiled kernels of `model/kernels` and declares what they read.

They are compiled when the project is installed, if there is a C++ compiler; else torch computes.
"""

import ctypes
import hashlib
from ctypes import POINTER, Structure, c_char_p, c_double, c_int, c_int64, c_void_p
from functools import cache
from importlib import machinery
from pathlib import Path

import torch

PANEL_COLUMNS = 32
#: number of each kind of factors in `model/kernels/product.h`
KINDS = {torch.float32: 0, torch.bfloat16: 1, torch.int8: 2}
#: numbers of activations in `model/kernels/vectors.h`, by their names in configurations
ACTIVATIONS = {"gelu": 1, "gelu_new": 2, "gelu_pytorch_tanh": 2, "relu": 3, "silu": 4, "tanh": 5}

_FEATURES = ("avx512_f", "avx512_bw", "avx512_dq", "avx512_vl")
_MORE_FEATURES = {torch.bfloat16: "avx512_bf16", torch.int8: "avx512_vnni"}
_NAME = "_kernels"
_SOURCES = Path(__file__).parents[1] / "kernels"
OUT_OF_RANGE, OUT_OF_MEMORY = 1, 2


class Projection(Structure):
    """A packed linear layer; see `model/kernels/encoder.h`, as for all structures here."""

    _fields_ = (
        ("words", c_void_p),
        ("bias", c_void_p),
        ("scales", c_void_p),
        ("sums", c_void_p),
        ("length", c_int64),
        ("columns", c_int64),
    )


class Norm(Structure):
    """A layer norm."""

    _fields_ = (("weight", c_void_p), ("bias", c_void_p))


class Layer(Structure):
    """A layer of the encoder."""

    _fields_ = (
        ("joined", Projection),
        ("output", Projection),
        ("intermediate", Projection),
        ("outer", Projection),
        ("attention_norm", Norm),
        ("output_norm", Norm),
    )


class FirstToken(Structure):
    """The attention of the first token in the last layer."""

    _fields_ = (
        ("queries", Projection),
        ("keys", c_void_p),
        ("values", c_void_p),
        ("value_bias", c_void_p),
        ("key_words", c_int64),
        ("value_words", c_int64),
    )


class Network(Structure):
    """An encoder with its classifier."""

    _fields_ = (
        *((name, c_int64) for name in ("kind", "activation", "pooling", "layers", "hidden")),
        *((name, c_int64) for name in ("heads", "inner", "classes", "vocabulary", "positions")),
        ("eps", c_double),
        ("tokens", c_void_p),
        ("places", c_void_p),
        ("embedding_norm", Norm),
        ("layer", POINTER(Layer)),
        ("first", FirstToken),
        ("pooler", Projection),
        ("classifier", Projection),
    )


def library() -> ctypes.CDLL | None:
    """Returns the library, whose calls release the interpreter's lock; None if there is a fault."""
    return None if fault() else _load()


def fault() -> str | None:
    """Returns why this process cannot compute by the kernels; None if it can."""
    capabilities = torch.cpu.get_capabilities()
    missing = [feature for feature in _FEATURES if not capabilities.get(feature, False)]
    if missing:
        return f"this processor has no {missing[0]}"
    compiled = _load()
    if compiled is None:
        return "they are not compiled"
    if _digest() not in {None, compiled.headlight_sources().decode()}:
        return "they are compiled from other sources than model/kernels holds now"
    return None


def can_compute(dtype: torch.dtype) -> bool:
    """Returns whether there is a library, and this processor has what its kernels need."""
    if dtype not in KINDS or library() is None:
        return False
    needed = _MORE_FEATURES.get(dtype)
    return needed is None or bool(torch.cpu.get_capabilities().get(needed, False))


@cache
def _load() -> ctypes.CDLL | None:
    for suffix in machinery.EXTENSION_SUFFIXES:
        path = Path(__file__).with_name(_NAME + suffix)
        if not path.is_file():
            continue
        compiled = ctypes.CDLL(str(path))
        # Compiled for another kind of processor, or before it knew its sources, it has no kernels.
        if hasattr(compiled, "headlight_encode") and hasattr(compiled, "headlight_sources"):
            compiled.headlight_sources.restype = c_char_p
            compiled.headlight_encode.restype = c_int
            compiled.headlight_encode.argtypes = (
                *(POINTER(Network), c_void_p, c_void_p, c_int64, c_int64),
                *(c_void_p, c_void_p, c_int64, c_void_p),
            )
            return compiled
    return None


@cache
def _digest() -> str | None:
    """Computes the digest of the sources as `setup.py` does; None if they are not here."""
    if not _SOURCES.is_dir():
        return None
    sources = sorted(path for path in _SOURCES.iterdir() if path.suffix in {".cpp", ".h"})
    return hashlib.sha256(b"".join(source.read_bytes() for source in sources)).hexdigest()
