"""Chooses device, type and backend from settings and the hardware of the machine."""

import re

import torch

from model.backends.base import Backend
from model.backends.cpu_packed import PackedBackend, can_pack
from model.backends.eager import CpuBackend, CudaBackend
from model.backends.threads import choose_threads
from model.checkpoint import Checkpoint
from model.config import EncoderConfig
from model.errors import ConfigurationError

_NAME = re.compile(r"cpu|cuda(?::(\d+))?")
_DTYPES = {
    "float32": torch.float32,
    "bfloat16": torch.bfloat16,
    "float16": torch.float16,
    "int8": torch.int8,
}
_NATIVE_INT8 = ("avx512_vnni",)
_NATIVE_BFLOAT16 = ("amx_bf16", "avx512_bf16", "bf16")
# The first GPUs that multiply 16-bit numbers natively: Volta float16, Ampere bfloat16.
_CUDA_FLOAT16, _CUDA_BFLOAT16 = (7, 0), (8, 0)


def choose_device(name: str) -> torch.device:
    """Chooses the device of a setting.

    Args:
        name: `auto` (CUDA if available, else the CPU), `cpu`, `cuda` or `cuda:N`.

    Raises:
        ConfigurationError: the name is none of these, or the CUDA device does not exist.
    """
    if name == "auto":
        name = "cuda" if torch.cuda.is_available() else "cpu"
    known = _NAME.fullmatch(name)
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


def choose_dtype(name: str, device: torch.device) -> torch.dtype:
    """Chooses the type of a setting.

    Args:
        name: `float32`, `bfloat16`, `float16`, `int8` or `auto`: bfloat16 if the device
            multiplies it natively, else float16 on a GPU that multiplies it natively, else
            float32.
        device: where the network runs.

    Raises:
        ConfigurationError: the device does not multiply int8 natively, or float16 is chosen for a
            processor.
    """
    if name == "int8" and not computes_int8(device):
        raise ConfigurationError(
            "dtype int8 needs a processor that multiplies bytes natively (AVX-512 VNNI), "
            f"which {device} is not: use auto"
        )
    if name == "float16" and device.type != "cuda":
        raise ConfigurationError(f"dtype float16 is for GPUs, which {device} is not: use auto")
    if name != "auto":
        return _DTYPES[name]
    if computes_bfloat16(device):
        return torch.bfloat16
    return torch.float16 if _is_gpu_since(device, _CUDA_FLOAT16) else torch.float32


def choose_backend(
    checkpoint: Checkpoint, *, device: torch.device, dtype: torch.dtype, threads: int = 0
) -> Backend:
    """Chooses the backend for a checkpoint.

    Args:
        checkpoint: the checked folder.
        device: where the network runs.
        dtype: the type of its projections, one that `choose_dtype` returns for the device.
        threads: threads that compute on the processor; 0: see `choose_threads`.

    Raises:
        ConfigurationError: the network cannot compute in that type.
    """
    config = checkpoint.config
    if dtype == torch.int8 and not isinstance(config, EncoderConfig):
        raise ConfigurationError(
            f"dtype int8 is for encoders, and {checkpoint.name} is a {config.architecture}: "
            "use auto"
        )
    kind: type[Backend] = CpuBackend
    if device.type == "cuda":
        kind = CudaBackend
    elif isinstance(config, EncoderConfig) and can_pack(device, dtype):
        kind = PackedBackend
    return kind(device, dtype, threads=choose_threads(threads))


def dtype_name(dtype: torch.dtype) -> str:
    """Names a type as settings do: `float32`, not `torch.float32`."""
    return str(dtype).removeprefix("torch.")


def computes_bfloat16(device: torch.device) -> bool:
    """Tells whether the device has instructions that multiply bfloat16 numbers."""
    if device.type == "cuda":
        return _is_gpu_since(device, _CUDA_BFLOAT16)
    capabilities = torch.cpu.get_capabilities()
    return any(capabilities.get(feature, False) for feature in _NATIVE_BFLOAT16)


def computes_int8(device: torch.device) -> bool:
    """Tells whether the processor multiplies bytes and adds four products in one instruction.

    Args:
        device: where the network runs.
    """
    if device.type != "cpu" or not torch._C._has_mkldnn:
        return False
    capabilities = torch.cpu.get_capabilities()
    return any(capabilities.get(feature, False) for feature in _NATIVE_INT8)


def _is_gpu_since(device: torch.device, capability: tuple[int, int]) -> bool:
    return device.type == "cuda" and torch.cuda.get_device_capability(device) >= capability
