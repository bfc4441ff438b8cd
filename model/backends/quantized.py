"""Computes projections in 8 bits, for processors that multiply bytes fastest.

Legend: N tokens, K features in, M features out.

A weight has a scale for each output feature, an input one for each token (Dettmers et al. 2022,
"LLM.int8()", section 2, without outliers). So no scale depends on other texts of a batch.
"""

import torch
from torch import Tensor
from torch.nn import functional

_LARGEST = 127  # of a weight's signed bytes; the bytes of a state go from 0 to 255


def quantize(weight: Tensor, bias: Tensor) -> tuple[Tensor, Tensor]:
    """Quantizes a projection, float32 [M, K] with its bias [M], to bytes.

    Returns:
        The bytes, int8 [M, K]; and float32 [3, M]: for each feature its scale, the sum of its bytes
        times that scale, and its bias.
    """
    scales = (weight.abs().amax(1) / _LARGEST).clamp(min=1e-12)  # [M]
    quantized = (weight / scales[:, None]).round()
    return quantized.to(torch.int8), torch.stack([scales, quantized.sum(1) * scales, bias])


def quantize_weight(weight: Tensor, bias: Tensor) -> tuple[Tensor, Tensor]:
    """Quantizes a projection, and lays its bytes out as oneDNN reads them; see `quantize`."""
    quantized, terms = quantize(weight, bias)
    packed: Tensor = torch.ops.onednn.qlinear_prepack(quantized, None)
    return packed, terms


def project(states: Tensor, weight: Tensor, terms: Tensor) -> Tensor:
    """Applies a linear layer to float32 [N, K] with a product of bytes; TorchScript compiles it.

    `weight` [K, M] and `terms` [3, M] are those of `quantize_weight`; the result is float32 [N, M].
    """
    least = states.amin(1, True)
    step = (states.amax(1, True) - least).clamp_(min=1e-12) / 255.0  # [N, 1]
    # The half step turns truncation into rounding.
    quantized = (states - (least - 0.5 * step)).div_(step).to(torch.uint8)
    # states = step * quantized + least, up to rounding
    product: Tensor = torch.ops.onednn.qlinear_pointwise(
        quantized,
        1.0,
        0,
        weight,
        terms[0],
        torch.zeros([terms.shape[1]], dtype=torch.int64),
        None,
        1.0,
        0,
        torch.float32,
        "none",
        [],
        "",
    )
    return product.mul_(step).addcmul_(least, terms[1]).add_(terms[2])


def activate(states: Tensor, activation: str, approximate: str) -> Tensor:
    """Applies the activation that has these names in oneDNN; TorchScript compiles it."""
    if activation == "gelu":
        return functional.gelu(states, approximate=approximate)
    if activation == "relu":
        return states.relu_()
    if activation == "swish":
        return functional.silu(states)
    return states
