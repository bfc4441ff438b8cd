"""Saves a network as a checkpoint folder, completely or not at all."""

import tempfile
from pathlib import Path
from typing import Any

import torch

from model.architecture import Network, NetworkConfig, is_known, stored_names
from model.errors import CheckpointError
from model.files import CONFIG, MANIFEST, WEIGHTS, digest, read_object, sync, write_object
from model.manifest import FORMAT_VERSION, MARK, Manifest, seal
from model.tokenizer import Tokenizer
from model.weights import save_weights


def save_checkpoint(
    path: Path,
    *,
    network: Network,
    config: NetworkConfig,
    tokenizer: Tokenizer,
    manifest: Manifest,
    dtype: torch.dtype = torch.float32,
) -> None:
    """Writes a new folder beside `path`, then renames it to `path`, replacing a checkpoint there.

    Args:
        path: the checkpoint folder.
        network: the network with its weights.
        config: the sizes.
        tokenizer: the tokenizer.
        manifest: the content of `headlight.json`; this function fills in its digests.
        dtype: the type of the stored weights.

    Raises:
        CheckpointError: `path` holds something other than a checkpoint (see `check_place`).
        OSError: the folder could not be written; the old content is still there.
    """
    check_place(path)
    path = path.resolve()
    path.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=path.parent, prefix=f".{path.name}-") as scratch:
        fresh = Path(scratch) / "new"
        fresh.mkdir()
        save_weights(
            fresh / WEIGHTS, network.state_dict(), dtype=dtype, stored_name=stored_names(config)
        )
        write_object(fresh / CONFIG, {**config.to_json(), MARK: FORMAT_VERSION})
        (fresh / "tokenizer.json").write_text(tokenizer.to_json(), encoding="utf-8")
        write_object(
            fresh / "tokenizer_config.json", tokenizer_options(tokenizer, manifest.max_length)
        )
        files = {file.name: digest(file) for file in sorted(fresh.iterdir())}
        content = manifest.model_copy(update={"files": files}).model_dump(mode="json")
        write_object(fresh / MANIFEST, {**content, "sha256": seal(content)})
        for file in [*fresh.iterdir(), fresh]:
            sync(file)
        old = Path(scratch) / "old"
        try:
            if path.exists():
                path.rename(old)
            fresh.rename(path)
        finally:
            if old.exists() and not path.exists():
                old.rename(path)
    sync(path.parent)


def check_place(path: Path) -> None:
    """Refuses a path where writing a checkpoint would remove other files.

    Args:
        path: where a checkpoint will be written.

    Raises:
        CheckpointError: there is a file, or a folder that is neither empty nor a checkpoint.
    """
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
    try:
        # Many programs have a file named config.json.
        return (path / WEIGHTS).is_file() and is_known(read_object(path / CONFIG))
    except CheckpointError:
        return False


def tokenizer_options(tokenizer: Tokenizer, max_length: int) -> dict[str, Any]:
    """Returns the content of `tokenizer_config.json`, for other tools that read the folder."""
    return {
        "tokenizer_class": "PreTrainedTokenizerFast",
        "model_max_length": max_length,
        **tokenizer.special_tokens(),
    }
