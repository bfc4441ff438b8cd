"""Describes in one line what figures hold for: processor, type of numbers, versions."""

import os
import platform
import re
from pathlib import Path

import torch

from model.backends.device import choose_dtype, dtype_name
from model.checkpoint.opening import open_checkpoint

_CPUINFO = Path("/proc/cpuinfo")
_NAME = re.compile(r"^model name\s*: (.+)$", re.MULTILINE)


def describe(checkpoint: Path, device: str = "cpu") -> str:
    """Describes this machine; measured servers see a GPU only if they are measured on it.

    Args:
        checkpoint: the folder that is served, whose record may decide about the type.
        device: `cpu` or `cuda`.
    """
    records = open_checkpoint(checkpoint).manifest.precision
    dtype = dtype_name(choose_dtype("auto", torch.device(device), records).dtype)
    gpu = "no GPU" if device == "cpu" else torch.cuda.get_device_name(device)
    return (
        f"On {os.cpu_count()} cores of {processor(_CPUINFO)}, {gpu}; headlight in {dtype}; "
        f"Python {platform.python_version()}, torch {torch.__version__}."
    )


def processor(cpuinfo: Path) -> str:
    """Returns the name of the processor, or its architecture if the name is unknown.

    Args:
        cpuinfo: the file in which Linux lists processors.
    """
    found = _NAME.search(cpuinfo.read_text(encoding="utf-8")) if cpuinfo.exists() else None
    return found[1] if found else platform.machine()
