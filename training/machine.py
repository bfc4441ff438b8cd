"""What a run was made on, for the record: processor, threads, versions."""

import platform
from pathlib import Path

import torch

_CPU_INFO = Path("/proc/cpuinfo")


def describe(device: torch.device) -> str:
    """One line for people.

    Args:
        device: where the networks ran.
    """
    where = _processor()
    if device.type == "cuda":
        where = f"{torch.cuda.get_device_name(device)}, {where}"
    return (
        f"{where}, {torch.get_num_threads()} threads, Python {platform.python_version()}, "
        f"torch {torch.__version__}"
    )


def _processor() -> str:
    try:
        lines = _CPU_INFO.read_text(encoding="utf-8").splitlines()
    except OSError:
        lines = []
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.machine()
