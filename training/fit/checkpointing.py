"""Checks that a disk has room for a run, and saves states where it may fill up.

A full disk must not end a run whose weights are sound: the checkpoint is smaller than a state, and
room may be made before the next one.
"""

import errno
import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from model.cli.progress import say
from model.tokenization.tokenizer import Tokenizer
from training.errors import TrainingError
from training.fit.state import TENSORS, TrainerState, save_state, size_of_state, step_of_state

FULL = (errno.ENOSPC, errno.EDQUOT)
# History and plot, and what a file system adds to files of this size.
_SLACK = 1_000_000
_NAME = 256  # bytes of the name and offset of a tensor in a file, at most
# The state holds the weights, the best weights, and the two means of the optimizer.
_COPIES, _COPIES_WITH_AVERAGE = 4, 5


def write_state(
    folder: Path,
    position: TrainerState,
    tensors: Mapping[str, Tensor],
    fingerprint: Mapping[str, Any],
) -> str | None:
    """Writes the state, or warns and returns why it is not on disk and where `--resume` continues.

    The previous state stays then.
    """
    try:
        save_state(folder, position, tensors, fingerprint)
    except OSError as error:
        size = sum(tensor.nbytes for tensor in tensors.values())
        reason = f"{describe_unwritten(error, folder / TENSORS, size)}; {resume_hint(folder)}"
        say(
            f"warning: the state after step {position.step} is not on disk: {reason}. The run goes "
            "on, and tries again at its next state"
        )
        return reason
    return None


def describe_unwritten(error: OSError, path: Path, size: int) -> str:
    """Describes which file of `size` bytes could not be written, and why."""
    reason = f"{path} could not be written ({error.strerror or error}): it needs {size:,} bytes"
    if error.errno not in FULL:
        return reason
    return f"{reason}, and {shutil.disk_usage(_existing(path.parent)).free:,} are free"


def resume_hint(folder: Path) -> str:
    """Describes after which step `--resume` continues, by the state on disk."""
    step = step_of_state(folder)
    if step is None:
        return "no state is there to resume from"
    return f"--resume continues after step {step}"


@dataclass(frozen=True, slots=True)
class Demand:
    """The most bytes of what a run writes."""

    state: int
    present: int  # of the state there already
    checkpoint: int
    is_over: bool = False  # whether only the checkpoint is left to write


def demand_of(
    network: nn.Module,
    tokenizer: Tokenizer,
    *,
    dtype: torch.dtype,
    has_average: bool,
    state_dir: Path,
    is_over: bool = False,
) -> Demand:
    """Computes what a run needs from the sizes of its network."""
    tensors = network.state_dict().values()
    one = sum(tensor.nbytes + _NAME for tensor in tensors)
    stored = sum(tensor.numel() * dtype.itemsize + _NAME for tensor in tensors)
    return Demand(
        state=one * (_COPIES_WITH_AVERAGE if has_average else _COPIES),
        present=size_of_state(state_dir),
        checkpoint=stored + len(tokenizer.to_json().encode()),
        is_over=is_over,
    )


def check_space(demand: Demand, *, run_dir: Path, output: Path) -> None:
    """Rejects disks without room for the states and the checkpoint of a run."""
    # Two states at a time, and a checkpoint beside the one that it replaces.
    in_run_dir = 0 if demand.is_over else 2 * demand.state - demand.present + _SLACK
    in_output = demand.checkpoint + _SLACK
    run_folder, folder = _existing(run_dir), _existing(output.resolve().parent)
    states, room = "the states of a run", "make room, or "
    if run_folder.stat().st_dev == folder.stat().st_dev:
        advice = room + "put the states on another disk with --run-dir"
        paths = f"{run_dir} and {output}"
        # The last state is removed only after the checkpoint is written.
        both = max(in_run_dir, in_output + (0 if demand.is_over else demand.state))
        _check_free(both, paths, folder, f"{states} and its checkpoint", advice)
        return
    advice = room + "choose another --run-dir"
    _check_free(in_run_dir, str(run_dir), run_folder, states, advice)
    advice = room + "choose another --output"
    _check_free(in_output, str(output), folder, "the files of the checkpoint", advice)


def _check_free(needed: int, paths: str, folder: Path, what: str, advice: str) -> None:
    free = shutil.disk_usage(folder).free
    if free < needed:
        raise TrainingError(
            f"{paths}: {what} need {needed:,} bytes, and {free:,} are free there: {advice}"
        )


def _existing(folder: Path) -> Path:
    """Returns the folder, or the nearest existing one above it."""
    resolved = folder.resolve()
    return next(each for each in (resolved, *resolved.parents) if each.is_dir())
