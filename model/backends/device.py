"""Chooses device, type and backend from settings and the hardware of the machine."""

import re
from collections.abc import Sequence
from dataclasses import dataclass

import torch

from model.backends.base import Backend
from model.backends.cpu_kernels import KernelBackend, can_run
from model.backends.cpu_packed import has_amx
from model.backends.eager import CpuBackend, CudaBackend
from model.backends.kernels import choose_set, reason_unavailable
from model.backends.threads import choose_threads
from model.checkpoint.opening import Checkpoint
from model.checkpoint.records import Precision, judge
from model.errors import ConfigurationError
from model.network.config import EncoderConfig

_NAME = re.compile(r"cpu|cuda(?::(\d+))?")
_DTYPES = {
    "float32": torch.float32,
    "bfloat16": torch.bfloat16,
    "float16": torch.float16,
    "int8": torch.int8,
}
_NATIVE_BFLOAT16 = ("amx_bf16", "avx512_bf16", "bf16")
# Sets of instructions where bytes are slower than float32, because four instructions multiply them.
# On all others int8 is fastest (docs/decisions/0021-own-kernels.md). A table, never a measurement:
# replicas and workers of a job must choose alike.
_SLOW_INT8 = ("neon",)
# The first GPUs that multiply 16-bit numbers natively: Volta float16, Ampere bfloat16.
_CUDA_FLOAT16, _CUDA_BFLOAT16 = (7, 0), (8, 0)


def choose_device(name: str) -> torch.device:
    """Chooses the device of a setting; raises ConfigurationError if there is none of this name."""
    if name == "auto":
        name = "cuda" if torch.cuda.is_available() else "cpu"
    known = _NAME.fullmatch(str(name))
    if known is None:
        raise ConfigurationError(f"device must be auto, cpu, cuda or cuda:N, got {name}")
    if name == "cpu":
        return torch.device("cpu")
    count = torch.cuda.device_count() if torch.cuda.is_available() else 0
    # torch would take the number modulo 256.
    index = int(known[1] or 0)
    if index >= count:
        raise ConfigurationError(
            f"device {name} was asked for, but torch finds {count} CUDA devices: "
            "use cpu or auto, or install torch with CUDA"
        )
    return torch.device("cuda", index)


@dataclass(frozen=True, slots=True)
class DtypeChoice:
    """The type that was chosen, and why."""

    dtype: torch.dtype
    reason: str


def choose_dtype(
    name: str,
    device: torch.device,
    precision: Sequence[Precision] = (),
    *,
    set_by: str = "the caller",
) -> DtypeChoice:
    """Chooses the type of a setting.

    Args:
        name: `float32`, `bfloat16`, `float16`, `int8` or `auto`: the fastest that the device has
            and the records allow.
        precision: the records of the checkpoint.
        set_by: what named the type, for the reason.

    Raises:
        ConfigurationError: the device cannot compute in the type.
    """
    if name != "auto" and name not in _DTYPES:
        raise ConfigurationError(f"dtype must be auto, {', '.join(_DTYPES)}, got {name}")
    if name == "int8" and not computes_int8(device):
        reason = reason_unavailable() or "they are switched off"
        reason = reason if device.type == "cpu" else f"{device} is none"
        raise ConfigurationError(
            f"dtype int8 needs the kernels on a processor, and {reason}: use auto"
        )
    if name == "float16" and device.type != "cuda":
        raise ConfigurationError(f"dtype float16 is for GPUs, which {device} is not: use auto")
    if name != "auto":
        return DtypeChoice(_DTYPES[name], f"set by {set_by}")
    dtype, reason = _choose(device, precision)
    return DtypeChoice(dtype, f"auto: this {reason}")


def _choose(device: torch.device, precision: Sequence[Precision]) -> tuple[torch.dtype, str]:
    """Chooses what `auto` means; the reason goes on from "auto: this"."""
    if device.type == "cuda":
        if computes_bfloat16(device):
            return torch.bfloat16, "GPU multiplies bfloat16 natively"
        if _is_gpu_since(device, _CUDA_FLOAT16):
            return torch.float16, "GPU has no bfloat16, and multiplies float16 natively"
        return torch.float32, "GPU has neither bfloat16 nor float16"
    if has_amx():
        return torch.bfloat16, "processor has AMX, where bfloat16 is fastest"
    verdict = judge("int8", precision)
    chosen = choose_set(torch.int8)
    if chosen is None or chosen.name in _SLOW_INT8:
        reason = f"processor has no fast int8 ({reason_unavailable() or 'no products of bytes'})"
    elif verdict.allowed:
        return torch.int8, f"processor is fastest in int8, and {verdict.reason}"
    else:
        reason = f"processor is fastest in int8, but {verdict.reason}"
    if computes_bfloat16(device):
        return torch.bfloat16, f"{reason}; next is bfloat16"
    return torch.float32, f"{reason}; next is float32"


def choose_backend(
    checkpoint: Checkpoint,
    *,
    device: torch.device,
    dtype: torch.dtype | DtypeChoice,
    threads: int = 0,
) -> Backend:
    """Chooses the backend for a checkpoint.

    Raises:
        ConfigurationError: the network cannot compute in that type.
    """
    config = checkpoint.config
    choice = dtype if isinstance(dtype, DtypeChoice) else DtypeChoice(dtype, "set by the caller")
    dtype = choice.dtype
    if dtype == torch.int8 and not isinstance(config, EncoderConfig):
        raise ConfigurationError(
            f"dtype int8 is for encoders, and {checkpoint.name} is a {config.architecture}: "
            "use auto"
        )
    kind: type[Backend] = CpuBackend
    if device.type == "cuda":
        kind = CudaBackend
    elif isinstance(config, EncoderConfig) and can_run(config, dtype):
        kind = KernelBackend
    backend = kind(device, dtype, threads=choose_threads(threads))
    backend.dtype_reason = choice.reason
    return backend


def dtype_name(dtype: torch.dtype) -> str:
    """Names a type as settings do: `float32`, not `torch.float32`."""
    return str(dtype).removeprefix("torch.")


def computes_bfloat16(device: torch.device) -> bool:
    """Returns whether the device has instructions that multiply bfloat16 numbers."""
    if device.type == "cuda":
        return _is_gpu_since(device, _CUDA_BFLOAT16)
    capabilities = torch.cpu.get_capabilities()
    return any(capabilities.get(feature, False) for feature in _NATIVE_BFLOAT16)


def computes_int8(device: torch.device) -> bool:
    """Returns whether the kernels multiply bytes there."""
    return device.type == "cpu" and choose_set(torch.int8) is not None


def _is_gpu_since(device: torch.device, capability: tuple[int, int]) -> bool:
    return device.type == "cuda" and torch.cuda.get_device_capability(device) >= capability
