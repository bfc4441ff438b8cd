"""Loads a checkpoint into a predictor."""

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from model.backends.base import Backend
from model.backends.device import DtypeChoice, choose_backend, choose_device, choose_dtype
from model.checkpoint.opening import Checkpoint, open_checkpoint
from model.errors import CheckpointError
from model.predictor import ModelInfo, Predictor
from model.validation import kind_of

if TYPE_CHECKING:  # it imports torch
    import torch


def load_predictor(
    checkpoint: Checkpoint,
    *,
    device: "str | torch.device" = "auto",
    dtype: "str | torch.dtype | DtypeChoice" = "auto",
) -> Predictor:
    """Loads a checkpoint to run on a device.

    Args:
        device: `auto`, `cpu`, `cuda` or `cuda:N`, or torch's own.
        dtype: the type of its projections: a name of `choose_dtype`, which chooses it for a name,
            or torch's own.

    Raises:
        CheckpointError: a weight is not finite, or the file changed since it was checked.
        ConfigurationError: the machine lacks the device, or cannot compute in that type.
        TypeError: an argument has the wrong type.
    """
    if not isinstance(checkpoint, Checkpoint):
        raise TypeError(
            f"load_predictor takes a Checkpoint, got {kind_of(checkpoint)}: write "
            "load_predictor(open_checkpoint(path))"
        )
    chosen = choose_device(str(device))
    if not isinstance(dtype, DtypeChoice):
        name = str(dtype).removeprefix("torch.")
        dtype = choose_dtype(name, chosen, checkpoint.manifest.precision)
    return load_on(checkpoint, choose_backend(checkpoint, device=chosen, dtype=dtype))


def load_on(checkpoint: Checkpoint, backend: Backend) -> Predictor:
    """Loads a checkpoint for the backend of `choose_backend`; raises as `load_predictor`."""
    runner = backend.load(checkpoint)
    config, manifest = checkpoint.config, checkpoint.manifest
    info = ModelInfo(
        name=checkpoint.name,
        version=checkpoint.version,
        architecture=config.architecture,
        labels=config.labels,
        num_layers=config.num_layers,
        num_heads=config.num_heads,
        hidden_size=config.hidden_size,
        parameters=checkpoint.parameters,
        max_length=manifest.max_length,
        temperature=manifest.temperature,
        device=backend.device,
        engine=backend.name,
        dtype=backend.dtype,
        dtype_reason=backend.dtype_reason,
        metrics=manifest.metrics,
        thresholds=manifest.thresholds,
        language=manifest.language,
        pair_temperature=manifest.pair_temperature,
    )
    path, sha256 = checkpoint.path.absolute(), checkpoint.weights_sha256
    choice = DtypeChoice(backend.dtype, backend.dtype_reason)
    reopen = partial(_reopen, path, sha256, backend.device, choice, backend.threads)
    return Predictor(runner, checkpoint, backend, info=info, reopen=reopen)


def _reopen(path: Path, sha256: str, device: str, dtype: DtypeChoice, threads: int) -> Predictor:
    """Loads in another process what a predictor was loaded from."""
    checkpoint = open_checkpoint(path)
    if checkpoint.weights_sha256 != sha256:
        raise CheckpointError(
            path, "holds other weights now than when the model was loaded: load it again"
        )
    return load_on(
        checkpoint, choose_backend(checkpoint, device=device, dtype=dtype, threads=threads)
    )
