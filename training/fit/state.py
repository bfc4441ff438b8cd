"""Saves and loads the state of a run, so that an interrupted run resumes exactly.

The state is a folder of safetensors and JSON; nothing is unpickled. It is written to a temporary
folder that is then renamed, and digests reveal damage. It holds no random state: every step draws
from a generator that is seeded by run and step.
"""

import errno
import hashlib
import json
import os
import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import safetensors.torch
from safetensors import SafetensorError
from torch import Tensor, nn
from torch.optim import Optimizer

from model.atomic import beside, replacing_folder, settle_folder
from model.checkpoint.manifest import seal
from training.distributed import Ranks
from training.errors import ResumeError
from training.fit.run_fingerprint import check_fingerprint
from training.measure.history import LossAndAccuracy, Measurement

TENSORS, _POSITION = "tensors.safetensors", "position.json"
_WEIGHTS, _AVERAGE, _BEST, _OPTIMIZER = "weights", "average", "best", "optimizer"


@dataclass(slots=True)
class TrainerState:
    """The progress of a run."""

    step: int = 0
    loss_sum: float = 0.0  # over this epoch's rows
    correct: int = 0
    seen: int = 0
    start: LossAndAccuracy | None = None  # validation before the first step, if measured
    best_epoch: int = 0  # 0: the start
    seconds: float = 0.0
    history: list[Measurement] = field(default_factory=list)

    @classmethod
    def from_json(cls, content: Mapping[str, Any]) -> "TrainerState":
        """Reads what `dataclasses.asdict` made of a state."""
        history = [Measurement(**each) for each in content["history"]]
        start = content["start"] and LossAndAccuracy(**content["start"])
        return cls(**{**content, "history": history, "start": start})


def clone(network: nn.Module) -> dict[str, Tensor]:
    """Copies the weights of a network."""
    return {name: tensor.detach().clone() for name, tensor in network.state_dict().items()}


def gather(
    network: nn.Module, averaged: nn.Module, best: Mapping[str, Tensor], optimizer: Optimizer
) -> dict[str, Tensor]:
    """Collects every tensor of the state of a run, by name."""
    moments = {
        f"{number}.{name}": tensor
        for number, state in optimizer.state_dict()["state"].items()
        for name, tensor in state.items()
    }
    parts: dict[str, Mapping[str, Tensor]] = {
        _WEIGHTS: network.state_dict(),
        _BEST: best,
        _OPTIMIZER: moments,
    }
    if averaged is not network:
        parts[_AVERAGE] = averaged.state_dict()
    return {f"{part}/{name}": tensor for part in parts for name, tensor in parts[part].items()}


def restore(
    tensors: Mapping[str, Tensor], network: nn.Module, averaged: nn.Module, optimizer: Optimizer
) -> dict[str, Tensor]:
    """Loads tensors into a run, and returns the weights of the best epoch."""
    network.load_state_dict(_part(tensors, _WEIGHTS))
    if averaged is not network:
        averaged.load_state_dict(_part(tensors, _AVERAGE))
    state: dict[int, dict[str, Tensor]] = {}
    for name, tensor in _part(tensors, _OPTIMIZER).items():
        number, _, moment = name.partition(".")
        state.setdefault(int(number), {})[moment] = tensor
    groups = optimizer.state_dict()["param_groups"]
    optimizer.load_state_dict({"state": state, "param_groups": groups})
    return _part(tensors, _BEST)


def _part(tensors: Mapping[str, Tensor], part: str) -> dict[str, Tensor]:
    prefix = f"{part}/"
    return {
        name.removeprefix(prefix): tensor
        for name, tensor in tensors.items()
        if name.startswith(prefix)
    }


def save_state(
    folder: Path,
    position: TrainerState,
    tensors: Mapping[str, Tensor],
    fingerprint: Mapping[str, Any],
) -> None:
    """Writes the state, and replaces the one before, which stays if that fails."""
    contiguous = {name: tensor.detach().cpu().contiguous() for name, tensor in tensors.items()}
    content: dict[str, Any] = {"identity": dict(fingerprint), "position": asdict(position)}
    with replacing_folder(folder) as fresh:
        try:
            safetensors.torch.save_file(contiguous, fresh / TENSORS)
        except SafetensorError as error:  # also of a full disk
            number = int((re.search(r"os error (\d+)", str(error)) or [0, errno.EIO])[1])
            raise OSError(number, os.strerror(number)) from error
        with (fresh / TENSORS).open("rb") as file:
            content["tensors"] = hashlib.file_digest(file, "sha256").hexdigest()
        sealed = json.dumps({**content, "sha256": seal(content)})
        (fresh / _POSITION).write_text(sealed, encoding="utf-8")


def load_state(
    folder: Path, fingerprint: Mapping[str, Any]
) -> tuple[TrainerState, dict[str, Tensor]]:
    """Reads the state of an interrupted run; raises `ResumeError` if it is not there or unsound."""
    settle_folder(folder)
    if not folder.is_dir():
        raise ResumeError(f"{folder}: there is no interrupted run to resume; leave out --resume")
    try:
        content, tensors = _read_sound(folder)
    except (OSError, ValueError, RecursionError) as error:
        raise ResumeError(
            f"{folder}: the state is damaged ({error}); start again with --overwrite instead of "
            "--resume"
        ) from error
    check_fingerprint(folder, content["identity"], fingerprint)
    return TrainerState.from_json(content["position"]), safetensors.torch.load(tensors)


def load_together(
    folder: Path, fingerprint: Mapping[str, Any], ranks: Ranks
) -> tuple[TrainerState, dict[str, Tensor]]:
    """Reads the state in the first process, which keeps the epoch's sums, and gives it to all."""
    if ranks.count == 1:
        return load_state(folder, fingerprint)
    state, message = TrainerState(), ""
    tensors: dict[str, Tensor] = {}
    if ranks.is_first:
        try:
            state, tensors = load_state(folder, fingerprint)
        except ResumeError as error:
            message = str(error)
    shared = ranks.share_object({"message": message, "state": asdict(state)})
    if shared["message"]:
        raise ResumeError(shared["message"])
    tensors = ranks.share_tensors(tensors)
    if not ranks.is_first:
        state = TrainerState.from_json(shared["state"])
        state.loss_sum, state.correct, state.seen = 0.0, 0, 0
    return state, tensors


def _read_sound(folder: Path) -> tuple[dict[str, Any], bytes]:
    content = json.loads((folder / _POSITION).read_text(encoding="utf-8"))
    tensors = (folder / TENSORS).read_bytes()
    if not isinstance(content, dict) or content.get("sha256") != seal(content):
        raise ValueError(f"{_POSITION} does not match its own SHA-256")
    if content["tensors"] != hashlib.sha256(tensors).hexdigest():
        raise ValueError(f"{TENSORS} does not match its SHA-256 in {_POSITION}")
    return content, tensors


def has_state(folder: Path) -> bool:
    """Whether an interrupted run left its state."""
    settle_folder(folder)
    return folder.exists()


def size_of_state(folder: Path) -> int:
    """Returns the bytes of the state that an interrupted run left; 0 if there is none."""
    folders = (folder, beside(folder, "new"), beside(folder, "old"))
    files = (path for each in folders for path in each.glob("*"))
    return sum(path.stat().st_size for path in files)


def step_of_state(folder: Path) -> int | None:
    """Returns the step of the state on disk, unchecked; None if there is none to read."""
    try:
        step = json.loads((folder / _POSITION).read_text(encoding="utf-8"))["position"]["step"]
    except (OSError, ValueError, RecursionError, KeyError, TypeError):
        return None
    return step if isinstance(step, int) else None
