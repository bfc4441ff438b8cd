"""The networks that a checkpoint may hold: from `model_type` to sizes, network and names."""

from collections.abc import Callable, Mapping
from typing import Any

from model.config import ConvAttentionConfig, EncoderConfig
from model.conv_attention import ConvAttentionClassifier, build_conv_attention
from model.encoder import EncoderClassifier, build_encoder
from model.weights import own_name, transformers_name

NetworkConfig = EncoderConfig | ConvAttentionConfig
Network = EncoderClassifier | ConvAttentionClassifier

_CONFIGS: Mapping[str, type[EncoderConfig] | type[ConvAttentionConfig]] = {
    "bert": EncoderConfig,
    "conv_attention": ConvAttentionConfig,
}


def read_config(content: Mapping[str, Any]) -> NetworkConfig:
    """Reads the content of a `config.json`.

    Args:
        content: the JSON object.

    Raises:
        pydantic.ValidationError: a size is missing, of the wrong type or does not fit.
        ValueError: the network is of a kind that is not loaded here.
    """
    if not is_known(content):
        known = " and ".join(repr(name) for name in _CONFIGS)
        raise ValueError(f"model_type is {content.get('model_type')!r}, only {known} can be loaded")
    return _CONFIGS[content["model_type"]].from_json(content)


def is_known(content: Mapping[str, Any]) -> bool:
    """Whether the content of a `config.json` names a kind of network that is loaded here."""
    kind = content.get("model_type")
    return isinstance(kind, str) and kind in _CONFIGS


def build_network(config: NetworkConfig) -> Network:
    """Builds the network of a configuration, its weights not yet drawn or loaded.

    Args:
        config: its sizes.
    """
    if isinstance(config, ConvAttentionConfig):
        return build_conv_attention(config)
    return build_encoder(config)


def stored_names(config: NetworkConfig) -> Callable[[str], str]:
    """What names a parameter in the weights file: transformers' for an encoder, else our own.

    Args:
        config: of the network.
    """
    return transformers_name if isinstance(config, EncoderConfig) else own_name
