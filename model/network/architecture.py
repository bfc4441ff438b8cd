"""Maps `model_type` to sizes, network and names of parameters."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch import nn
from torch.overrides import TorchFunctionMode

from model.errors import shorten
from model.network.config import ConvAttentionConfig, EncoderConfig
from model.network.conv_attention import ConvAttentionClassifier, build_conv_attention
from model.network.encoder import EncoderClassifier, build_encoder
from model.network.families import KINDS, Kind

NetworkConfig = EncoderConfig | ConvAttentionConfig
Network = EncoderClassifier | ConvAttentionClassifier

_CONFIGS: Mapping[str, type[EncoderConfig] | type[ConvAttentionConfig]] = {
    **dict.fromkeys(KINDS, EncoderConfig),
    "conv_attention": ConvAttentionConfig,
}


def read_config(content: Mapping[str, Any]) -> NetworkConfig:
    """Reads the content of a `config.json`.

    Raises:
        pydantic.ValidationError: a size is missing, of the wrong type or does not fit.
        ValueError: this kind of network cannot be loaded.
    """
    if not is_known(content):
        *most, last = map(repr, _CONFIGS)
        raise ValueError(
            f"model_type is {shorten(repr(content.get('model_type')))}, only {', '.join(most)} and "
            f"{last} can be loaded"
        )
    return _CONFIGS[content["model_type"]].from_json(content)


def is_known(content: Mapping[str, Any]) -> bool:
    """Returns whether a `config.json` names a kind of network that can be loaded."""
    kind = content.get("model_type")
    return isinstance(kind, str) and kind in _CONFIGS


def build_undrawn(config: NetworkConfig, device: str) -> Network:
    """Builds the network of a configuration; what its weights hold is not defined.

    Raises:
        RuntimeError: a weight has more bytes than torch can count.
    """
    with torch.device(device), _NoDrawing():
        if isinstance(config, ConvAttentionConfig):
            return build_conv_attention(config)
        return build_encoder(config)


class _NoDrawing(TorchFunctionMode):
    """Leaves out the functions of `torch.nn.init`: on the meta device, drawing takes 80 MB."""

    def __torch_function__(
        self,
        func: Callable[..., Any],
        types: Sequence[type],
        args: tuple[Any, ...] = (),
        kwargs: Mapping[str, Any] | None = None,
    ) -> Any:  # noqa: ANN401 - whatever the function returns
        del types
        options = kwargs or {}
        if getattr(func, "__module__", None) == nn.init.__name__:
            return args[0] if args else options["tensor"]
        return func(*args, **options)


def encoder_kind(config: NetworkConfig) -> Kind | None:
    """Returns the kind of an encoder; None for a network that stores weights under our names."""
    return KINDS[config.kind] if isinstance(config, EncoderConfig) else None
