"""Maps `model_type` to sizes, network and names of parameters."""

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
        ValueError: this kind of network cannot be loaded.
    """
    if not is_known(content):
        known = " and ".join(repr(name) for name in _CONFIGS)
        raise ValueError(f"model_type is {content.get('model_type')!r}, only {known} can be loaded")
    return _CONFIGS[content["model_type"]].from_json(content)


def is_known(content: Mapping[str, Any]) -> bool:
    """Tells whether a `config.json` names a kind of network that can be loaded."""
    kind = content.get("model_type")
    return isinstance(kind, str) and kind in _CONFIGS


def build_network(config: NetworkConfig) -> Network:
    """Builds the network of a configuration; its weights are neither drawn nor loaded.

    Args:
        config: the sizes.
    """
    if isinstance(config, ConvAttentionConfig):
        return build_conv_attention(config)
    return build_encoder(config)


def stored_names(config: NetworkConfig) -> Callable[[str], str]:
    """Returns the function from our name of a parameter to its name in the weights file.

    An encoder uses the names of transformers; other networks use our own.

    Args:
        config: the sizes.
    """
    return transformers_name if isinstance(config, EncoderConfig) else own_name
