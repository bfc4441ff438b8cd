"""Loads the compiled kernels of `model/kernels` and declares what they read.

They are compiled when the project is installed; where they are not, torch computes.
"""

import ctypes
import os
import sys
from ctypes import POINTER, Structure, c_int, c_int64, c_void_p
from functools import cache
from pathlib import Path

#: number of each kind of factors in `model/kernels/encoder.h`
KINDS = {"float32": 0, "bfloat16": 1, "int8": 2}
#: numbers of activations in `model/kernels/vectors.h`, by their names in configurations
ACTIVATIONS = {"gelu": 1, "gelu_new": 2, "gelu_pytorch_tanh": 2, "relu": 3, "silu": 4, "tanh": 5}
OUT_OF_MEMORY = 2

_LIBRARY = Path(__file__).with_name("_kernels.dll" if sys.platform == "win32" else "_kernels.so")
_VERSION = 1  # of the interface in `model/kernels/encoder.h`; it goes up with every change there
# torch's own limit of the instructions that it uses holds for the kernels too.
_LIMIT = "ATEN_CPU_CAPABILITY"


class Projection(Structure):
    """A packed linear layer; see `model/kernels/encoder.h`, as for all structures here."""

    _fields_ = (
        *((name, c_void_p) for name in ("words", "bias", "scales", "sums")),
        *((name, c_int64) for name in ("length", "columns")),
    )


class Norm(Structure):
    """A layer norm."""

    _fields_ = (("weight", c_void_p), ("bias", c_void_p))


class Layer(Structure):
    """A layer of the encoder."""

    _fields_ = (
        *((name, Projection) for name in ("joined", "output", "intermediate", "outer")),
        *((name, Norm) for name in ("attention_norm", "output_norm")),
    )


class FirstToken(Structure):
    """The attention of the first token in the last layer."""

    _fields_ = (
        ("queries", Projection),
        *((name, c_void_p) for name in ("keys", "values", "value_bias")),
        *((name, c_int64) for name in ("key_words", "value_words")),
    )


class Network(Structure):
    """An encoder with its classifier."""

    _fields_ = (
        *((name, c_int64) for name in ("kind", "activation", "pooling", "layers", "hidden")),
        *((name, c_int64) for name in ("heads", "inner", "classes", "vocabulary", "positions")),
        ("eps", ctypes.c_double),
        ("tokens", c_void_p),
        ("half_tokens", c_int64),
        ("places", c_void_p),
        ("embedding_norm", Norm),
        ("layer", POINTER(Layer)),
        ("first", FirstToken),
        ("pooler", Projection),
        ("classifier", Projection),
    )


class InstructionSet(Structure):
    """A way to compute passes with one set of instructions."""

    _fields_ = (
        ("identifier", ctypes.c_char_p),
        ("kinds", c_int64),
        ("panel_columns", c_int64),
        # Calls release the interpreter's lock.
        (
            "encode",
            ctypes.CFUNCTYPE(
                c_int,
                *(POINTER(Network), c_void_p, c_void_p, c_int64, c_int64),
                *(c_void_p, c_void_p, c_int64, c_void_p, c_void_p),
            ),
        ),
    )

    @property
    def name(self) -> str:
        """The instructions with their variant, like `avx2_vnni`."""
        return str(self.identifier.decode())

    @property
    def family(self) -> str:
        """The instructions without their variant, like `avx2`."""
        return self.name.partition("_")[0]

    def can_compute(self, dtype: str) -> bool:
        """Returns whether it multiplies factors of a type."""
        return dtype in KINDS and bool(self.kinds >> KINDS[dtype] & 1)


_SIZES = [ctypes.sizeof(Network), ctypes.sizeof(InstructionSet), _VERSION]


def instruction_sets() -> list[InstructionSet]:
    """Returns what this processor can compute with, the fastest first."""
    limit = os.environ.get(_LIMIT, "")
    families = {"default": (), "avx2": ("avx2",)}.get(limit)
    return [each for each in _load()[0] if families is None or each.family in families]


def choose_set(dtype: str) -> InstructionSet | None:
    """Returns the fastest instructions for a type; None if torch must compute."""
    return next((each for each in instruction_sets() if each.can_compute(dtype)), None)


def reason_unavailable() -> str | None:
    """Returns why this process cannot compute by the kernels; None if it can."""
    return _load()[1]


@cache
def _load() -> tuple[list[InstructionSet], str | None]:
    """Loads the sets of the library that this processor has; says why there are none."""
    if not _LIBRARY.is_file():
        return [], "they are not compiled"
    compiled = ctypes.CDLL(str(_LIBRARY))
    # Before anything else is read: a library of other sources may have other structures.
    sizes = (c_int64 * 3)()
    if hasattr(compiled, "headlight_sizes"):
        compiled.headlight_sizes(sizes)
    if list(sizes) != _SIZES:
        return [], "they are compiled from other sources: compile them again (make install)"
    compiled.headlight_instruction_set.restype = c_int
    compiled.headlight_instruction_set.argtypes = (c_int64, POINTER(InstructionSet))
    sets: list[InstructionSet] = []
    while compiled.headlight_instruction_set(len(sets), ctypes.byref(found := InstructionSet())):
        sets.append(found)
    return sets, None if sets else "this processor has no AVX2"
