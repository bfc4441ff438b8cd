"""Chooses where a run computes, and describes the processor for the record."""

import platform
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor
from torch.nn.attention import SDPBackend, sdpa_kernel

from model.backends.cuda import avoid_cudnn_attention
from model.backends.device import choose_device, computes_bfloat16
from model.backends.eager import send
from model.backends.threads import choose_threads
from model.errors import ConfigurationError
from training.distributed import SINGLE_PROCESS, Ranks

# Up to this many tokens a step is faster unfused (docs/decisions/0013-default-model.md).
_LONGEST_UNFUSED = 160
_CPU_INFO = Path("/proc/cpuinfo")


@dataclass(frozen=True, slots=True)
class Accelerator:
    """Where a run computes, and in what type."""

    device: torch.device
    bfloat16: bool = False

    def autocast(self) -> torch.autocast:
        """Returns the context for forward passes."""
        return torch.autocast(self.device.type, torch.bfloat16, enabled=self.bfloat16)

    def send(self, tensor: Tensor) -> Tensor:
        """Copies a host tensor to the device."""
        return send(tensor, self.device)


def attention_kernel(length: int, device: torch.device) -> AbstractContextManager[object]:
    """Returns the context for the forward pass of a step. It also decides the backward pass."""
    if device.type != "cpu" or length > _LONGEST_UNFUSED:
        return nullcontext()
    return sdpa_kernel([SDPBackend.MATH])


def choose_accelerator(
    device: str, *, threads: int | None, dtype: str, ranks: Ranks = SINGLE_PROCESS
) -> Accelerator:
    """Chooses where a run computes, and sets threads and determinism of torch.

    Processes of a machine share its cores, and each has a GPU of its own. A dtype of `auto` is
    bfloat16 where the processor has it.
    """
    chosen = find_device(device)
    if chosen.type == "cuda" and ranks.count > 1:
        chosen = find_device(f"cuda:{ranks.local_number}")
        torch.cuda.set_device(chosen)
    shared = max(1, choose_threads(0) // ranks.local_count) if ranks.count > 1 else 0
    torch.set_num_threads(choose_threads(threads or shared))
    # Fused attention on a GPU has no deterministic form.
    torch.use_deterministic_algorithms(chosen.type == "cpu")
    avoid_cudnn_attention()
    return Accelerator(
        chosen, dtype == "bfloat16" or (dtype == "auto" and computes_bfloat16(str(chosen)))
    )


def find_device(name: str) -> torch.device:
    """Finds the device that the option `--device` names."""
    try:
        return torch.device(choose_device(name))
    except ConfigurationError as error:
        raise ConfigurationError(f"--device: {error}") from error


def describe(device: torch.device) -> str:
    """Describes processor, threads and versions in one line."""
    name = processor()
    if device.type == "cuda":
        name = f"{torch.cuda.get_device_name(device)}, {name}"
    return (
        f"{name}, {torch.get_num_threads()} threads, Python {platform.python_version()}, "
        f"torch {torch.__version__}"
    )


def processor() -> str:
    """Returns the name of the processor, or its architecture if the name is unknown."""
    try:
        lines = _CPU_INFO.read_text(encoding="utf-8").splitlines()
    except OSError:
        lines = []
    names = (line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    return next(names, platform.machine())
