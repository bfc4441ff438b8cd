"""Builds the network of a configuration."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from numpy.typing import NDArray
from torch import nn
from torch.overrides import TorchFunctionMode

from model.network.config import ConvAttentionConfig, NetworkConfig
from model.network.conv_attention import ConvAttentionClassifier, build_conv_attention
from model.network.encoder import EncoderClassifier, build_encoder

Network = EncoderClassifier | ConvAttentionClassifier


def load(config: NetworkConfig, weights: Mapping[str, NDArray[Any]]) -> Network:
    """Builds a network on the CPU for inference, in float32."""
    network: Network
    with torch.device("cpu"), _NoDrawing():
        if isinstance(config, ConvAttentionConfig):
            network = build_conv_attention(config)
        else:
            network = build_encoder(config)
    fill(network, weights)
    return network.requires_grad_(requires_grad=False).eval()


def fill(network: Network, weights: Mapping[str, NDArray[Any]]) -> None:
    """Copies weights, float32 or narrower, into a network on the CPU."""
    with torch.no_grad():
        for name, parameter in network.named_parameters():
            parameter.copy_(torch.from_numpy(weights[name]))


class _NoDrawing(TorchFunctionMode):
    """Leaves out the functions of `torch.nn.init`, since stored weights replace what they draw."""

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
