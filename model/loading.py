"""From a checkpoint to a predictor that is ready to answer."""

import torch

from model.backends.cpu_packed import PackedEncoder, can_pack
from model.backends.device import dtype_name
from model.checkpoint import Checkpoint
from model.classifier import Classifier
from model.config import EncoderConfig
from model.encoder import EncoderClassifier
from model.errors import ConfigurationError
from model.gradients import Gradients
from model.predictor import ModelInfo, Predictor


def load_predictor(
    checkpoint: Checkpoint, *, device: torch.device, dtype: torch.dtype
) -> Predictor:
    """Reads the weights of a checkpoint and makes it ready to answer.

    Args:
        checkpoint: a folder that was found sound.
        device: where the network runs.
        dtype: what its projections compute in, one that `choose_dtype` gives for the device.

    Raises:
        CheckpointError: a weight is not finite, or the file changed since it was checked.
        ConfigurationError: the network cannot compute in that type.
    """
    check_dtype(checkpoint, dtype)
    in_int8 = dtype == torch.int8
    network = checkpoint.load_network()
    parameters = sum(parameter.numel() for parameter in network.parameters())
    network.compute_in(torch.float32 if in_int8 else dtype)
    network.to(device)
    info = _describe(checkpoint, parameters, device, dtype)
    ready: Classifier = network
    if isinstance(network, EncoderClassifier) and can_pack(device, dtype):
        ready = PackedEncoder(network, in_int8=in_int8)
    gradients = Gradients(
        checkpoint.reload_network,
        labels=info.labels,
        temperature=info.temperature,
        num_layers=info.num_layers,
        num_heads=info.num_heads,
        pad_token_id=checkpoint.tokenizer.pad_token_id,
        device=device,
    )
    return Predictor(
        ready,
        checkpoint.tokenizer,
        info=info,
        device=device,
        gradients=gradients,
        residual_share=checkpoint.config.residual_share,
    )


def check_dtype(checkpoint: Checkpoint, dtype: torch.dtype) -> None:
    """Raises `ConfigurationError` if the network of a checkpoint cannot compute in a type."""
    if dtype == torch.int8 and not isinstance(checkpoint.config, EncoderConfig):
        raise ConfigurationError(
            f"dtype int8 is for encoders, and {checkpoint.name} is a "
            f"{checkpoint.config.architecture}: use auto"
        )


def _describe(
    checkpoint: Checkpoint, parameters: int, device: torch.device, dtype: torch.dtype
) -> ModelInfo:
    config = checkpoint.config
    return ModelInfo(
        name=checkpoint.name,
        version=checkpoint.version,
        architecture=config.architecture,
        labels=config.labels,
        num_layers=config.num_layers,
        num_heads=config.num_heads,
        hidden_size=config.hidden_size,
        parameters=parameters,
        max_length=checkpoint.manifest.max_length,
        temperature=checkpoint.manifest.temperature,
        device=str(device),
        dtype=dtype_name(dtype),
        metrics=checkpoint.manifest.metrics,
    )
