"""Chooses the number of threads from a setting or the CPU quota, and which of them yield."""

import math
import os
import sys
import threading
from pathlib import Path

_CGROUP = Path("/sys/fs/cgroup")


def choose_threads(setting: int, *, cgroup: Path = _CGROUP) -> int:
    """Returns the setting, or for 0 the CPU quota rounded up, at most the cores of this process."""
    if setting:
        return setting
    cores = _usable_cores()
    quota = _quota(cgroup)
    return cores if quota is None else max(1, min(cores, math.ceil(quota)))


def yield_to_others(niceness: int) -> None:
    """Lets other threads of the machine run before this one."""
    if niceness and sys.platform == "linux":  # elsewhere this affects the whole process
        niceness = max(niceness, os.getpriority(os.PRIO_PROCESS, 0))
        os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), niceness)


def _usable_cores() -> int:
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def _quota(cgroup: Path) -> float | None:
    """Reads how many CPUs the container may use, from cgroups 2 or 1; None if unlimited."""
    for files in (["cpu.max"], ["cpu/cpu.cfs_quota_us", "cpu/cpu.cfs_period_us"]):
        try:
            words = " ".join((cgroup / file).read_text(encoding="ascii") for file in files).split()
        except OSError:
            continue
        if len(words) == 2 and all(word.isdigit() for word in words) and int(words[1]) > 0:
            return int(words[0]) / int(words[1])
        return None
    return None
