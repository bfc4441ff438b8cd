"""Which device and which type a network computes in, from what the machine has."""

import torch

from model.errors import ConfigurationError

_NATIVE_BFLOAT16 = ("amx_bf16", "avx512_bf16", "bf16")


def choose_device(name: str) -> torch.device:
    """The device of a setting.

    Args:
        name: `auto` (CUDA where there is one, else the CPU), `cpu`, `cuda` or `cuda:N`.

    Raises:
        ConfigurationError: a CUDA device is asked for that is not there.
    """
    if name == "auto":
        name = "cuda" if torch.cuda.is_available() else "cpu"
    device = torch.device(name)
    if device.type == "cuda":
        count = torch.cuda.device_count() if torch.cuda.is_available() else 0
        index = device.index or 0
        if index >= count:
            raise ConfigurationError(
                f"device {name} was asked for, but torch finds {count} CUDA devices: "
                "use cpu or auto, or install torch with CUDA"
            )
        return torch.device("cuda", index)
    return device


def choose_dtype(name: str, device: torch.device) -> torch.dtype:
    """The type of a setting.

    Args:
        name: `float32`, `bfloat16`, or `auto`: bfloat16 where the processor multiplies it
            natively, else float32.
        device: where the network runs.
    """
    if name != "auto":
        return {"float32": torch.float32, "bfloat16": torch.bfloat16}[name]
    return torch.bfloat16 if computes_bfloat16(device) else torch.float32


def computes_bfloat16(device: torch.device) -> bool:
    """Whether the processor has instructions that multiply bfloat16 numbers."""
    if device.type == "cuda":
        return torch.cuda.get_device_capability(device) >= (8, 0)
    capabilities = torch.cpu.get_capabilities()
    return any(capabilities.get(feature, False) for feature in _NATIVE_BFLOAT16)
