"""Loads a checkpoint into a predictor."""

import torch

from model.backends.base import Backend
from model.backends.device import (
    DtypeChoice,
    choose_backend,
    choose_device,
    choose_dtype,
    dtype_name,
)
from model.checkpoint.opening import Checkpoint
from model.explain.attention_steps import HeadInspector
from model.explain.gradients import Gradients
from model.network.shared_weights import SharedWeights
from model.predictor import ModelInfo, Predictor
from model.validation import kind_of


def load_predictor(
    checkpoint: Checkpoint,
    *,
    device: str | torch.device = "auto",
    dtype: str | torch.dtype | DtypeChoice = "auto",
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
    if not isinstance(device, torch.device):
        device = choose_device(device)
    if not isinstance(dtype, torch.dtype | DtypeChoice):
        dtype = choose_dtype(dtype, device, checkpoint.manifest.precision)
    return load_on(checkpoint, choose_backend(checkpoint, device=device, dtype=dtype))


def load_on(checkpoint: Checkpoint, backend: Backend) -> Predictor:
    """Loads a checkpoint for the backend of `choose_backend`; raises as `load_predictor`.

    The weights are read once, and the networks that serve and explain share memory.
    """
    network = checkpoint.load_network().to(backend.device)
    config, manifest, tokenizer = checkpoint.config, checkpoint.manifest, checkpoint.tokenizer
    info = ModelInfo(
        name=checkpoint.name,
        version=checkpoint.version,
        architecture=config.architecture,
        labels=config.labels,
        num_layers=config.num_layers,
        num_heads=config.num_heads,
        hidden_size=config.hidden_size,
        parameters=sum(parameter.numel() for parameter in network.parameters()),
        max_length=manifest.max_length,
        temperature=manifest.temperature,
        device=str(backend.device),
        engine=backend.name,
        dtype=dtype_name(backend.dtype),
        dtype_reason=backend.dtype_reason,
        metrics=manifest.metrics,
        thresholds=manifest.thresholds,
        language=manifest.language,
        pair_temperature=manifest.pair_temperature,
    )
    runner = backend.load(network, pad_token_id=tokenizer.pad_token_id)
    exact = SharedWeights(network, compact=backend.copies_layers)
    return Predictor(
        runner,
        tokenizer,
        info=info,
        backend=backend,
        gradients=Gradients(
            exact, config, temperature=info.temperature, pad_token_id=tokenizer.pad_token_id
        ),
        inspector=HeadInspector(exact, config),
        residual_share=config.residual_share,
    )
