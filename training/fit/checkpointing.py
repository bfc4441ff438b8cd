"""Keeps the state of a run on disk, and lets the run go on where it cannot be written.

A full disk must not end a run whose weights are sound: the checkpoint is smaller than a state, and
room may be made before the next one.
"""

import errno
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from torch import Tensor

from model.cli.progress import say
from training.fit.state import TENSORS, TrainerState, save_state, step_of_state

FULL = (errno.ENOSPC, errno.EDQUOT)


def keep_state(
    folder: Path, position: TrainerState, tensors: Mapping[str, Tensor], identity: Mapping[str, Any]
) -> str | None:
    """Writes the state, or warns that it could not be written. The state before stays on disk.

    Args:
        folder: of the state.
        position: the progress of the run.
        tensors: of `training.fit.state.gather`.
        identity: what a run must share with this one to resume it.

    Returns:
        None; or why the state is not on disk, and where `--resume` would go on.
    """
    try:
        save_state(folder, position, tensors, identity)
    except OSError as error:
        size = sum(tensor.nbytes for tensor in tensors.values())
        fault = f"{tell_unwritten(error, folder / TENSORS, size)}; {where_to_go_on(folder)}"
        say(
            f"warning: the state after step {position.step} is not on disk: {fault}. The run goes "
            "on, and tries again at its next state"
        )
        return fault
    return None


def tell_unwritten(error: OSError, path: Path, size: int) -> str:
    """Tells which file could not be written, why, and how many bytes it needs.

    Args:
        error: of the write.
        path: of the file; temporary names of it are not told.
        size: bytes of what is written.
    """
    fault = f"{path} could not be written ({error.strerror or error}): it needs {size:,} bytes"
    if error.errno not in FULL:
        return fault
    existing = next(each for each in path.parents if each.is_dir())
    return f"{fault}, and {shutil.disk_usage(existing).free:,} are free"


def where_to_go_on(folder: Path) -> str:
    """Tells after which step `--resume` goes on, by the state that is on disk."""
    step = step_of_state(folder)
    if step is None:
        return "no state is there to resume from"
    return f"--resume goes on after step {step}"
