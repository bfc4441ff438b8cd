"""Chooses device, type and backend from settings and the hardware of the machine."""

import re
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from model.backends.base import Backend
from model.backends.cpu_kernels import KernelBackend, can_run
from model.backends.kernels import choose_set, reason_unavailable
from model.backends.threads import choose_threads, processor_features
from model.checkpoint.opening import Checkpoint
from model.checkpoint.records import Precision, judge
from model.errors import NEEDS_TORCH, ConfigurationError
from model.network.config import EncoderConfig

_NAME = re.compile(r"cpu|cuda(?::(\d+))?")
_DTYPES = ("float32", "bfloat16", "float16", "int8")
# What drivers of GPUs make: CUDA's, that of Windows in Linux, AMD's.
_DRIVERS = ("/dev/nvidiactl", "/dev/dxg", "/dev/kfd")
_NATIVE_BFLOAT16 = ("avx512_bf16", "bf16")
# Sets of instructions where bytes are slower than float32, because four instructions multiply them.
# On all others int8 is fastest (docs/decisions/0021-own-kernels.md). A table, never a measurement:
# replicas and workers of a job must choose alike.
_SLOW_INT8 = ("neon",)
# The first GPUs that multiply 16-bit numbers natively: Volta float16, Ampere bfloat16.
_CUDA_FLOAT16, _CUDA_BFLOAT16 = (7, 0), (8, 0)


def choose_device(name: str) -> str:
    """Chooses the device of a setting; raises ConfigurationError if there is none of this name."""
    if name == "auto":
        name = "cuda" if _may_have_gpu() and count_gpus() else "cpu"
    known = _NAME.fullmatch(name)
    if known is None:
        raise ConfigurationError(f"device must be auto, cpu, cuda or cuda:N, got {name}")
    if name == "cpu":
        return "cpu"
    count = count_gpus()
    # torch would take the number modulo 256.
    index = int(known[1] or 0)
    if index >= count:
        raise ConfigurationError(
            f"device {name} was asked for, but torch finds {count} CUDA devices: "
            "use cpu or auto, or install torch with CUDA"
        )
    return f"cuda:{index}"


def _may_have_gpu() -> bool:
    """Returns whether it is worth importing torch to look for a GPU."""
    try:
        if version("torch").endswith("+cpu"):
            return False
    except PackageNotFoundError:
        return False
    return sys.platform != "linux" or any(Path(driver).exists() for driver in _DRIVERS)


def count_gpus() -> int:
    """Returns how many GPUs torch finds here."""
    try:
        import torch
    except ImportError:
        return 0
    return torch.cuda.device_count() if torch.cuda.is_available() else 0


@dataclass(frozen=True, slots=True)
class DtypeChoice:
    """The type that was chosen, and why."""

    dtype: str
    reason: str


def choose_dtype(
    name: str, device: str, precision: Sequence[Precision] = (), *, set_by: str = "the caller"
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
        reason = f"{device} is none" if _is_gpu(device) else reason
        raise ConfigurationError(
            f"dtype int8 needs the kernels on a processor, and {reason}: use auto"
        )
    if name == "float16" and not _is_gpu(device):
        raise ConfigurationError(f"dtype float16 is for GPUs, which {device} is not: use auto")
    if name != "auto":
        return DtypeChoice(name, f"set by {set_by}")
    dtype, reason = _choose(device, precision)
    return DtypeChoice(dtype, f"auto: this {reason}")


def _choose(device: str, precision: Sequence[Precision]) -> tuple[str, str]:
    """Chooses what `auto` means; the reason goes on from "auto: this"."""
    if _is_gpu(device):
        if computes_bfloat16(device):
            return "bfloat16", "GPU multiplies bfloat16 natively"
        if _is_gpu_since(device, _CUDA_FLOAT16):
            return "float16", "GPU has no bfloat16, and multiplies float16 natively"
        return "float32", "GPU has neither bfloat16 nor float16"
    verdict = judge("int8", precision)
    chosen = choose_set("int8")
    if chosen is None or chosen.name in _SLOW_INT8:
        reason = f"processor has no fast int8 ({reason_unavailable() or 'no products of bytes'})"
    elif verdict.allowed:
        return "int8", f"processor is fastest in int8, and {verdict.reason}"
    else:
        reason = f"processor is fastest in int8, but {verdict.reason}"
    if computes_bfloat16(device):
        return "bfloat16", f"{reason}; next is bfloat16"
    return "float32", f"{reason}; next is float32"


def choose_backend(
    checkpoint: Checkpoint, *, device: str, dtype: str | DtypeChoice, threads: int = 0
) -> Backend:
    """Chooses a backend; raises ConfigurationError if the network cannot compute in that type."""
    config = checkpoint.config
    choice = dtype if isinstance(dtype, DtypeChoice) else DtypeChoice(dtype, "set by the caller")
    dtype = choice.dtype
    if dtype == "int8" and not isinstance(config, EncoderConfig):
        raise ConfigurationError(
            f"dtype int8 is for encoders, and {checkpoint.name} is a {config.architecture}: "
            "use auto"
        )
    kind: type[Backend]
    if not _is_gpu(device) and isinstance(config, EncoderConfig) and can_run(config, dtype):
        kind = KernelBackend
    else:
        try:
            from model.backends.cuda import CudaBackend
            from model.backends.eager import CpuBackend
        except ImportError as error:
            fault = reason_unavailable() or f"they have no {dtype} or not these sizes"
            raise ConfigurationError(
                f"the kernels cannot compute {checkpoint.name} here ({fault}), which then "
                f"{NEEDS_TORCH}"
            ) from error
        kind = CudaBackend if _is_gpu(device) else CpuBackend
    backend = kind(device, dtype, threads=choose_threads(threads))
    backend.dtype_reason = choice.reason
    return backend


def computes_bfloat16(device: str) -> bool:
    """Returns whether the device has instructions that multiply bfloat16 numbers."""
    if _is_gpu(device):
        return _is_gpu_since(device, _CUDA_BFLOAT16)
    return any(feature in processor_features() for feature in _NATIVE_BFLOAT16)


def computes_int8(device: str) -> bool:
    """Returns whether the kernels multiply bytes there."""
    return not _is_gpu(device) and choose_set("int8") is not None


def _is_gpu(device: str) -> bool:
    return device != "cpu"


def _is_gpu_since(device: str, capability: tuple[int, int]) -> bool:
    import torch

    return torch.cuda.get_device_capability(device) >= capability
