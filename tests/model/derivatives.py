"""Log-odds in float64 and their derivatives by differences, apart from how `model` has them.

Legend: N rows, T tokens, D embedding size, C classes.
"""

from collections.abc import Callable

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from model.network.architecture import Network
from model.network.conv_attention import ConvAttentionClassifier
from model.network.encoder import EncoderClassifier
from model.network.layers import EncoderLayer
from model.network.masks import mask_bias

Function = Callable[[Tensor], Tensor]  # float64 [N, T, D] to [N]
_EPSILON = 1e-5


def log_odds_of(network: Network, label: int, temperature: float) -> Function:
    """f of rows of token embeddings.

    Args:
        network: turned to float64.
        label: index of the class.
        temperature: of the checkpoint.
    """
    network.double()

    def log_odds(embeddings: Tensor) -> Tensor:
        with torch.no_grad():
            if isinstance(network, EncoderClassifier):
                logits = _encoder_logits(network, embeddings)
            else:
                logits = _conv_logits(network, embeddings)
            probabilities = (logits / temperature).softmax(dim=-1)  # [N, C]
            p: Tensor = probabilities[:, label]
            return torch.log(p / (1 - p))

    return log_odds


def _encoder_logits(network: EncoderClassifier, embeddings: Tensor) -> Tensor:
    parts = network.embeddings
    states = parts.norm(embeddings + parts.places(embeddings.shape[1]))
    for layer in network.layers:
        states, _ = layer(states, bias=None, need_weights=False)
    logits: Tensor = network.classifier(torch.tanh(network.pooler(states[:, 0])))
    return logits


def _conv_logits(network: ConvAttentionClassifier, embeddings: Tensor) -> Tensor:
    rows, length, size = embeddings.shape
    surplus = network.max_length - length
    padded = torch.cat([embeddings, embeddings.new_zeros(rows, surplus, size)], dim=1)
    assert network.convolution is not None
    assert network.attention is not None
    states = torch.relu(network._convolve(network.convolution, padded))
    bias = None
    if network.mask_padding:
        masked = torch.arange(network.max_length).expand(rows, 1, 1, -1) >= length
        bias = mask_bias(masked, states.dtype)
    states = network.attention.attend(
        states, states, states, bias=bias, need_weights=False
    ).hidden_states
    unit = network.classifier(states.flatten(1))
    return torch.cat([torch.zeros_like(unit), unit], dim=1)


def slopes(log_odds: Function, at: Tensor, way: Tensor) -> NDArray[np.float64]:
    """How f changes as each token alone goes its way; central differences.

    Args:
        log_odds: f.
        at: where, float64 [T, D].
        way: of each token, float64 [T, D].

    Returns:
        float64 [T].
    """
    moves = torch.diag_embed(torch.ones(len(at), dtype=torch.float64))[..., None] * way  # [T, T, D]
    up, down = log_odds(at + _EPSILON * moves), log_odds(at - _EPSILON * moves)
    result: NDArray[np.float64] = ((up - down) / (2 * _EPSILON)).numpy()
    return result


def slopes_by_head(network: Network, log_odds: Function, at: Tensor) -> NDArray[np.float64]:
    """How f changes with the output of each head, float64 [L, H].

    To scale the output of a head is to scale the columns of the output's weight that read it.
    """
    if isinstance(network, EncoderClassifier):
        attentions = [
            layer.attention for layer in network.layers if isinstance(layer, EncoderLayer)
        ]
    else:
        assert network.attention is not None
        attentions = [network.attention]
    result = []
    for attention in attentions:
        weight = attention.output.weight
        original = weight.detach().clone()
        width = weight.shape[1] // attention.num_heads
        for head in range(attention.num_heads):
            columns = slice(head * width, (head + 1) * width)
            values = []
            for scale in (1 + _EPSILON, 1 - _EPSILON):
                with torch.no_grad():
                    weight[:, columns] = original[:, columns] * scale
                values.append(log_odds(at[None]).item())
                with torch.no_grad():
                    weight.copy_(original)
            result.append((values[0] - values[1]) / (2 * _EPSILON))
    return np.array(result).reshape(len(attentions), -1)
