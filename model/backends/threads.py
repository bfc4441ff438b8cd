"""Chooses the number of threads from a setting or the CPU quota, and which of them yield."""

import math
import os
import sys
import threading
from collections.abc import Iterator
from functools import cache
from pathlib import Path

# Where control groups are mounted, and what names those of the process.
_ROOT = Path("/sys/fs/cgroup")
_OWN = Path("/proc/self/cgroup")
_PROCESSOR = Path("/proc/cpuinfo")
_QUOTA = ["cpu.max"], ["cpu.cfs_quota_us", "cpu.cfs_period_us"]


@cache
def processor_features() -> frozenset[str]:
    """Returns the instructions of this processor by the names of Linux; nothing elsewhere."""
    try:
        lines = _PROCESSOR.read_text("utf-8", "replace").splitlines()
    except OSError:
        return frozenset()
    for name, _, values in (line.partition(":") for line in lines):
        if name.strip().lower() in {"flags", "features"}:
            return frozenset(values.split())
    return frozenset()


def choose_threads(setting: int) -> int:
    """Returns the setting, or for 0 the CPU quota rounded up, at most the cores of this process."""
    if setting:
        return setting
    quotas = map(_quota, group_folders("cpu"))
    return max(1, min([usable_cores(), *(math.ceil(quota) for quota in quotas if quota)]))


def group_folders(controller: str) -> Iterator[Path]:
    """Yields the folders of the control groups that limit the process: its own and their parents.

    Of version 1 only those of the controller, `cpu` or `memory`, are meant.
    """
    try:
        lines = _OWN.read_text("utf-8").splitlines()
    except OSError:  # no Linux
        return
    for line in lines:
        _, controllers, path = line.split(":", 2)
        base = _ROOT
        if controllers:
            if controller not in controllers.split(","):
                continue
            base /= controller
        inner = Path(path.lstrip("/"))
        # In a container the group may be mounted at the root, whatever its path is outside.
        for folder in (inner, *inner.parents):
            yield base / folder


def yield_to_others(niceness: int) -> None:
    """Lets other threads of the machine run before this one."""
    if niceness and sys.platform == "linux":  # elsewhere this affects the whole process
        niceness = max(niceness, os.getpriority(os.PRIO_PROCESS, 0))
        os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), niceness)


def usable_cores() -> int:
    """Returns how many cores this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def _quota(group: Path) -> float | None:
    """Reads how many CPUs a control group may use, of version 2 or 1; None if unlimited."""
    for files in _QUOTA:
        try:
            words = " ".join((group / file).read_text(encoding="ascii") for file in files).split()
        except OSError:
            continue
        if len(words) == 2 and all(word.isdigit() for word in words) and int(words[1]) > 0:
            return int(words[0]) / int(words[1])
        return None
    return None
