"""Refuses weights with which a text could overflow a network, by bounds that hold for every text.

An output of a linear map is at most the largest sum of absolute weights over a row, times the
largest input, plus the largest bias. Attention is a mean of values. After a layer norm no feature
exceeds the root of the feature count times the largest scale, plus the largest shift.
"""

import math
from collections.abc import Callable
from pathlib import Path

import torch
from torch import Tensor, nn

from model.errors import CheckpointError
from model.network.architecture import Network
from model.network.attention import MultiHeadAttention
from model.network.conv_attention import ConvAttentionClassifier
from model.network.encoder import EncoderClassifier
from model.network.layers import EncoderLayer

# float32 and bfloat16 reach 3e38. The rest is left to rounding and to sums in another order.
LARGEST = 1e35


def check_magnitudes(
    path: Path, network: Network, *, dtype: torch.dtype, stored_name: Callable[[str], str]
) -> None:
    """Refuses weights that could make a pass overflow; for float16, only those beyond its range.

    Raises:
        CheckpointError: a weight is too large.
    """
    bounds = _Bounds(path, network, stored_name)
    limit = torch.finfo(dtype).max if dtype.is_floating_point else LARGEST
    for name, parameter in network.named_parameters():
        bounds.check(name, _largest(parameter), limit=min(limit, LARGEST))
    if isinstance(network, EncoderClassifier):
        _bound_encoder(bounds, network)
    elif isinstance(network, ConvAttentionClassifier):
        _bound_convolution(bounds, network)


def _bound_encoder(bounds: "_Bounds", network: EncoderClassifier) -> None:
    embeddings = network.embeddings
    tables = [embeddings.tokens, embeddings.positions, embeddings.types]
    largest = {table: _largest(table.weight) for table in tables if table is not None}
    source = max(largest, key=largest.__getitem__)
    hidden = bounds.norm(embeddings.norm, sum(largest.values()), source=source)
    for layer in network.layers:
        if isinstance(layer, EncoderLayer):
            sum_of_both = hidden + bounds.attention(layer.attention, hidden)
            output = layer.attention.output
            hidden = bounds.norm(layer.attention_norm, sum_of_both, source=output)
            inner = bounds.linear(layer.intermediate, hidden)
            sum_of_both = hidden + bounds.linear(layer.output, inner)
            hidden = bounds.norm(layer.output_norm, sum_of_both, source=layer.output)
    pooled = bounds.linear(network.pooler, hidden)
    bounds.linear(network.classifier, 1.0 if network.pooling == "tanh" else pooled)


def _bound_convolution(bounds: "_Bounds", network: ConvAttentionClassifier) -> None:
    states = _largest(network.embedding.weight)
    if network.convolution is not None:
        states = bounds.linear(network.convolution, states)
    if network.attention is not None:
        states = bounds.attention(network.attention, states)
    bounds.linear(network.classifier, states)


class _Bounds:
    """Follows the largest absolute number from module to module."""

    def __init__(self, path: Path, network: nn.Module, stored_name: Callable[[str], str]) -> None:
        self._path = path
        self._names = {module: name for name, module in network.named_modules()}
        self._stored_name = stored_name

    def linear(self, module: nn.Linear | nn.Conv1d, inputs: float) -> float:
        """Bounds the outputs of a linear map; a filter of a convolution is one of its rows."""
        # A sum that overflows is infinite, and so beyond the limit.
        rows = torch.linalg.vector_norm(module.weight.detach().flatten(1), 1, dim=1)
        return self._check(module, inputs * float(rows.max()) + _largest(module.bias))

    def attention(self, module: MultiHeadAttention, inputs: float) -> float:
        """Bounds the outputs of scaled dot-product attention, and the products before its softmax.

        The largest term of a product is that of one feature; a head adds as many as it has.
        """
        queries, keys = self.linear(module.query, inputs), self.linear(module.key, inputs)
        self._check(module.key, queries * keys * module.key.out_features)
        return self.linear(module.output, self.linear(module.value, inputs))

    def norm(self, module: nn.LayerNorm, inputs: float, *, source: nn.Module) -> float:
        """Bounds the outputs of a layer norm, which sums the squares of its inputs."""
        size = module.weight.numel()
        self._check(source, size * inputs * inputs)
        return math.sqrt(size) * _largest(module.weight) + _largest(module.bias)

    def check(self, name: str, bound: float, *, limit: float = LARGEST) -> None:
        """Refuses a bound beyond the limit; `name` is our name of the parameter at fault."""
        if bound > limit:
            raise CheckpointError(
                self._path,
                f"{self._stored_name(name)} is too large to compute with: numbers there may reach "
                f"{bound:.1e}, and the limit is {limit:.1e}",
            )

    def _check(self, module: nn.Module, bound: float) -> float:
        self.check(f"{self._names[module]}.weight", bound)
        return bound


def _largest(parameter: Tensor | None) -> float:
    if parameter is None:
        return 0.0
    least, greatest = parameter.detach().aminmax()
    return max(-float(least), float(greatest))
