"""Decides everything that depends on the device of a network."""

from model.backends.base import Backend, Runner
from model.backends.device import (
    DtypeChoice,
    choose_backend,
    choose_device,
    choose_dtype,
    computes_bfloat16,
    computes_int8,
    dtype_name,
)
from model.backends.threads import choose_threads, yield_to_others

__all__ = [
    "Backend",
    "DtypeChoice",
    "Runner",
    "choose_backend",
    "choose_device",
    "choose_dtype",
    "choose_threads",
    "computes_bfloat16",
    "computes_int8",
    "dtype_name",
    "yield_to_others",
]
