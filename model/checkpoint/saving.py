"""Saves a network as a checkpoint folder, or a record in one, completely or not at all."""

import os
from pathlib import Path
from typing import TYPE_CHECKING

from model.atomic import replacing_folder, write_whole
from model.checkpoint.manifest import FORMAT_VERSION, MARK, Manifest, sealed
from model.checkpoint.opening import Checkpoint, open_checkpoint
from model.checkpoint.records import Baseline, Precision, Thresholds
from model.checkpoint.weights import save_weights
from model.errors import CheckpointError
from model.files import (
    CONFIG,
    INDEX,
    MANIFEST,
    SIGNATURE,
    WEIGHTS,
    digest,
    read_object,
    sign_command,
    to_bytes,
)
from model.network.config import NetworkConfig, encoder_kind, is_known
from model.tokenization.tokenizer import Tokenizer
from model.validation import folder_path

if TYPE_CHECKING:  # whose networks are saved has imported it
    import torch

    from model.network.architecture import Network


def save_checkpoint(
    path: str | Path,
    *,
    network: "Network",
    config: NetworkConfig,
    tokenizer: Tokenizer,
    manifest: Manifest,
    dtype: "torch.dtype | None" = None,
) -> None:
    """Writes a checkpoint folder as a whole, in place of one that is there; see `replacing_folder`.

    Args:
        manifest: the content of `headlight.json`; its digests are filled in here.
        dtype: the type of the stored weights; None: that of each parameter.

    Raises:
        CheckpointError: `path` holds something other than a checkpoint (see `check_place`).
        OSError: the folder could not be written; the old content is still there.
    """
    path = folder_path(path, by="save_checkpoint")
    check_place(path)
    with replacing_folder(path.resolve()) as fresh:
        save_weights(fresh / WEIGHTS, network.state_dict(), encoder_kind(config), dtype=dtype)
        (fresh / CONFIG).write_bytes(to_bytes({**config.to_json(), MARK: FORMAT_VERSION}))
        (fresh / "tokenizer.json").write_text(tokenizer.to_json(), encoding="utf-8")
        options = {  # for other tools that read the folder
            "tokenizer_class": "PreTrainedTokenizerFast",
            "model_max_length": manifest.max_length,
            **tokenizer.special_tokens(),
        }
        (fresh / "tokenizer_config.json").write_bytes(to_bytes(options))
        files = {file.name: digest(file) for file in sorted(fresh.iterdir())}
        mine = {"weights_sha256": files[WEIGHTS]}
        baseline, thresholds = manifest.baseline, manifest.thresholds
        filled = {
            "files": files,
            "baseline": baseline and baseline.model_copy(update=mine),
            "thresholds": thresholds and thresholds.model_copy(update=mine),
        }
        (fresh / MANIFEST).write_bytes(to_bytes(sealed(manifest.model_copy(update=filled))))


def check_place(path: Path) -> None:
    """Raises CheckpointError for a path where writing a checkpoint would remove other files."""
    if not path.exists():
        return
    if not path.is_dir():
        raise CheckpointError(path, "is a file: give the path of a folder")
    if any(path.iterdir()) and not _is_checkpoint(path):
        raise CheckpointError(
            path,
            f"holds other files than a checkpoint's (no {MANIFEST}, nor {WEIGHTS} with the "
            f"{CONFIG} of a network that is known here): only an empty folder or a checkpoint is "
            "replaced",
        )


def _is_checkpoint(path: Path) -> bool:
    if (path / MANIFEST).is_file():
        return True
    has_weights = any((path / name).is_file() for name in (WEIGHTS, INDEX))
    try:
        # Many programs have a file named config.json.
        return has_weights and is_known(read_object(path / CONFIG))
    except CheckpointError:
        return False


def save_precision(checkpoint: Checkpoint, record: Precision) -> None:
    """Writes a record of precision into `headlight.json`, in place of an older one of its type.

    CheckpointError: the folder is signed, cannot be written, or has changed meanwhile.
    """
    others = [each for each in checkpoint.manifest.precision if each.dtype != record.dtype]
    _save(checkpoint, precision=tuple(sorted([*others, record], key=lambda each: each.dtype)))


def save_baseline(checkpoint: Checkpoint, baseline: Baseline, thresholds: Thresholds) -> None:
    """Writes a baseline and thresholds into `headlight.json`; raises as `save_precision` does."""
    mine = {"weights_sha256": checkpoint.weights_sha256}
    _save(
        checkpoint,
        baseline=baseline.model_copy(update=mine),
        thresholds=thresholds.model_copy(update=mine),
    )


def _save(checkpoint: Checkpoint, **records: object) -> None:
    check_recordable(checkpoint.path)
    path = checkpoint.path / MANIFEST
    now = open_checkpoint(checkpoint.path)
    is_same = now.weights_sha256 == checkpoint.weights_sha256 and now.config == checkpoint.config
    if not is_same or now.manifest != checkpoint.manifest:
        raise CheckpointError(
            checkpoint.path, "was changed while it was measured: nothing is recorded; measure again"
        )
    try:
        write_whole(path, to_bytes(sealed(now.manifest.model_copy(update=records))))
    except OSError as error:
        raise CheckpointError(path, f"cannot be written: {error.strerror}") from error


def check_recordable(folder: Path) -> None:
    """Raises CheckpointError for a folder that is signed, or that cannot be written."""
    if (folder / SIGNATURE).exists():
        raise CheckpointError(
            folder / SIGNATURE,
            f"covers {MANIFEST}, so a record there would make the signature wrong: remove "
            f"{SIGNATURE}, record, and sign again ({sign_command(folder)})",
        )
    if not os.access(folder, os.W_OK):
        raise CheckpointError(folder, "cannot be written: a record needs the right to write there")
