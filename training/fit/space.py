"""Computes the bytes that a run writes, and refuses a disk that has no room for them."""

import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import nn

from model.tokenization.tokenizer import Tokenizer
from training.errors import NoSpaceError
from training.fit.state import size_of_state

# History and plot, and what a file system adds to files of this size.
_SLACK = 1_000_000
_NAME = 256  # bytes of the name and place of a tensor in a file, at most
# The state holds the weights, the best weights, and the two means of the optimizer.
_COPIES, _COPIES_WITH_AVERAGE = 4, 5
_AT_LEAST_TWO = 2  # a state is written whole before the one before is removed


@dataclass(frozen=True, slots=True)
class Demand:
    """The most bytes that a run writes in two folders, beyond what lies there already.

    Args:
        state: of one state.
        present: of the state that lies there already.
        checkpoint: of the checkpoint.
        is_over: whether all that is left to write is the checkpoint.
    """

    state: int
    present: int
    checkpoint: int
    is_over: bool = False

    @property
    def in_run_folder(self) -> int:
        """Two states at a time, one of them replacing the other."""
        return 0 if self.is_over else _AT_LEAST_TWO * self.state - self.present + _SLACK

    @property
    def in_output(self) -> int:
        """The checkpoint, which is written beside the one that it replaces."""
        return self.checkpoint + _SLACK

    @property
    def on_one_disk(self) -> int:
        """The last of the states is removed after the checkpoint is written."""
        return max(self.in_run_folder, self.in_output + (0 if self.is_over else self.state))


def demand_of(
    network: nn.Module,
    tokenizer: Tokenizer,
    *,
    dtype: torch.dtype,
    has_average: bool,
    state_dir: Path,
    is_over: bool = False,
) -> Demand:
    """Computes what a run needs from the sizes of its network.

    Args:
        network: that is trained.
        tokenizer: of the checkpoint.
        dtype: of the stored weights.
        has_average: whether the run keeps a running mean of the weights.
        state_dir: folder of the state, which may hold one already.
        is_over: whether the run has been trained to its end.
    """
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
    """Refuses disks without room for what a run writes.

    Args:
        demand: of the run.
        run_dir: where states, history and plot go.
        output: where the checkpoint goes.

    Raises:
        NoSpaceError: less is free than the run needs; the message has both numbers.
    """
    run_place, place = _existing(run_dir), _existing(output.resolve().parent)
    if run_place.stat().st_dev == place.stat().st_dev:
        _check(
            demand.on_one_disk,
            [run_dir, output],
            place,
            "the states of a run and its checkpoint",
            "make room, or put the states on another disk with --run-dir",
        )
        return
    check_state_space(demand, run_dir, advice="make room, or choose another --run-dir")
    _check(
        demand.in_output, [output], place, "the checkpoint", "make room, or choose another --output"
    )


def check_state_space(demand: Demand, folder: Path, *, advice: str) -> None:
    """Refuses a disk without room for the states of a run.

    Args:
        demand: of the run.
        folder: where its states go.
        advice: what to do about it.

    Raises:
        NoSpaceError: less is free than the states need; the message has both numbers.
    """
    _check(demand.in_run_folder, [folder], _existing(folder), "the states of a run", advice)


def _check(needed: int, paths: Sequence[Path], place: Path, what: str, advice: str) -> None:
    free = shutil.disk_usage(place).free
    if free < needed:
        told = " and ".join(map(str, paths))
        raise NoSpaceError(
            f"{told}: {what} need {needed:,} bytes, and {free:,} are free there: {advice}"
        )


def _existing(folder: Path) -> Path:
    """Returns the folder, or the nearest one above it that is there."""
    place = folder.resolve()
    return next(each for each in (place, *place.parents) if each.is_dir())
