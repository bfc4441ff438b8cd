"""Finds the folder of a checkpoint that a user named, or of the one that ships."""

import logging
from collections.abc import Callable
from pathlib import Path

from model.checkpoint.hub import download_checkpoint, is_reference, parse

#: the checkpoint that ships; a folder of this name in the working directory goes before it
DEFAULT = Path("checkpoints/default")
_EARLIER_NAME = "neutral"
_BESIDE_PACKAGES = Path(__file__).resolve().parents[2]

_log = logging.getLogger("headlight.checkpoint")


def local_folder(value: Path, *, note: Callable[[str], None] = _log.warning) -> Path:
    """Returns the folder of an option, which is a path or `hf:NAME@REVISION`.

    `checkpoints/default` is the one that ships, unless the working directory has one; `note` gets a
    line where that has another name now. HubError: the name cannot be downloaded. OSError: the
    cache cannot be written.
    """
    if is_reference(value):
        return download_checkpoint(parse(value))
    if (line := renamed(value)) is not None:
        note(line)
        value = value.with_name(DEFAULT.name)
    beside = _BESIDE_PACKAGES / value
    return beside if value == DEFAULT and not value.exists() and beside.is_dir() else value


def renamed(value: Path) -> str | None:
    """Returns the line that says so where `checkpoints/neutral` is now `checkpoints/default`."""
    default = value.with_name(DEFAULT.name)
    is_there = default.is_dir() or (default == DEFAULT and (_BESIDE_PACKAGES / default).is_dir())
    if value.name != _EARLIER_NAME or value.exists() or not is_there:
        return None
    return f"{value} is {default} now: name that, the old name goes with the next release"
