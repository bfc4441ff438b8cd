"""Describes in one line what figures hold for: processor, type of numbers, versions."""

import os
import platform
import re
from pathlib import Path

import torch

from model.backends.device import choose_dtype, dtype_name

_CPUINFO = Path("/proc/cpuinfo")
_NAME = re.compile(r"^model name\s*: (.+)$", re.MULTILINE)


def describe() -> str:
    """Describes this machine; no measured server sees a GPU."""
    dtype = dtype_name(choose_dtype("auto", torch.device("cpu")))
    return (
        f"On {os.cpu_count()} cores of {processor(_CPUINFO)}, no GPU; headlight in {dtype}; "
        f"Python {platform.python_version()}, torch {torch.__version__}."
    )


def processor(cpuinfo: Path) -> str:
    """Returns the name of the processor, or its architecture if the name is unknown.

    Args:
        cpuinfo: the file in which Linux lists processors.
    """
    found = _NAME.search(cpuinfo.read_text(encoding="utf-8")) if cpuinfo.exists() else None
    return found[1] if found else platform.machine()
