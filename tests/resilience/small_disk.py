"""Mounts a small disk in memory, fills it and makes room again; mounting needs root."""

import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

_BLOCK = bytes(64 * 1024)
_NAME = ".ballast"


@contextmanager
def small_disk(folder: Path, megabytes: int) -> Iterator["SmallDisk"]:
    """Mounts a disk of so many megabytes at a new folder until the block ends."""
    folder.mkdir(parents=True)
    done = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", f"size={megabytes}m", "tmpfs", str(folder)],
        stderr=subprocess.DEVNULL,
        check=False,
    )
    is_mounted = done.returncode == 0
    try:
        yield SmallDisk(folder, is_small=is_mounted)
    finally:
        if is_mounted:
            subprocess.run(["umount", "--lazy", str(folder)], check=True)


class SmallDisk:
    """A disk that can be filled; only if `is_small`, as otherwise it is the machine's own."""

    def __init__(self, folder: Path, *, is_small: bool) -> None:
        self.folder = folder
        self.is_small = is_small

    def fill(self) -> None:
        """Takes all room."""
        with (self.folder / _NAME).open("ab", buffering=0) as file:
            try:
                while file.write(_BLOCK):
                    pass
            except OSError:  # no space left
                return

    def free(self) -> None:
        """Gives the room back."""
        (self.folder / _NAME).unlink(missing_ok=True)
