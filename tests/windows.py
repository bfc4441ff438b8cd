"""Makes this process lack what Python lacks on Windows, and its files behave as there."""

import fcntl
import importlib
import os
import shutil
import signal
import sys
import warnings
from pathlib import Path
from typing import Any

_MODULES = ("fcntl", "termios", "resource", "pwd", "grp", "tty", "pty")
_OF_OS = (
    *("fork", "getuid", "geteuid", "link", "mkfifo", "sched_getaffinity", "getpriority"),
    *("setpriority", "getloadavg", "O_DIRECTORY", "O_NOFOLLOW", "killpg", "setsid", "fchmod"),
)
_OF_SIGNAL = ("SIGHUP", "SIGXCPU", "SIGALRM", "pthread_sigmask", "setitimer", "alarm")
_fsync, _open, _unlink, _replace = os.fsync, os.open, Path.unlink, Path.replace


def pretend() -> None:
    """Does so until the process ends."""
    replaced: dict[Any, dict[str, Any]] = {
        os: {"fsync": _fsync_writable, "open": _open_file},
        Path: {"unlink": _unlink_closed, "replace": _replace_closed},
        shutil: {"_use_fd_functions": False},
    }
    for place, functions in replaced.items():
        for name, function in functions.items():
            setattr(place, name, function)
    modules: dict[str, Any] = dict.fromkeys(_MODULES)
    sys.modules.update(modules)
    with warnings.catch_warnings():  # that it will not use fcntl
        warnings.simplefilter("ignore")
        importlib.import_module("filelock")
    for module, missing in ((os, _OF_OS), (signal, _OF_SIGNAL)):
        for name in missing:
            delattr(module, name)


def _fsync_writable(descriptor: int) -> None:
    if not fcntl.fcntl(descriptor, fcntl.F_GETFL) & (os.O_WRONLY | os.O_RDWR):
        raise OSError(9, "Bad file descriptor")
    _fsync(descriptor)


def _open_file(path: Any, flags: int, mode: int = 0o777, **rest: Any) -> int:  # noqa: ANN401
    if Path(path).is_dir():
        raise PermissionError(13, "Permission denied")
    return _open(path, flags, mode, **rest)


def _check_closed(path: Path) -> None:
    links = Path("/proc/self/fd").iterdir()
    if path.exists() and any(each.exists() and each.samefile(path) for each in links):
        raise PermissionError(13, "Permission denied")


def _unlink_closed(path: Path, missing_ok: bool = False) -> None:
    _check_closed(path)
    _unlink(path, missing_ok)


def _replace_closed(path: Path, target: Path) -> Path:
    _check_closed(path)
    _check_closed(target)
    return _replace(path, target)
