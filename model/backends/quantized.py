"""Projections in 8 bits, for processors that multiply bytes faster than anything else.

Legend: N tokens, K features in, M features out.

A weight has one scale for each feature that comes out, found once; what comes in has a scale and a
shift for each token, found as it comes, so that its bytes span from its least to its largest
feature. So no scale depends on the others of a batch, and sums of bytes are exact. All else stays
float32. (Dynamic quantization by channel and by token, as of Dettmers et al. 2022, "LLM.int8()",
section 2, without its outliers apart.)
"""

import torch
from torch import Tensor
from torch.nn import functional

_LARGEST = 127  # of a weight's bytes, which have a sign; those of a state go from 0 to 255
_TINY = 1e-12


def quantize_weight(weight: Tensor, bias: Tensor) -> tuple[Tensor, Tensor]:
    """A projection in bytes, its weight in memory as oneDNN reads it.

    Args:
        weight: float32 [M, K].
        bias: float32 [M].

    Returns:
        The bytes; and float32 [3, M]: for each feature its scale, the sum of its bytes times that
        scale, and its bias.
    """
    scales = (weight.abs().amax(1) / _LARGEST).clamp(min=_TINY)  # [M]
    whole = (weight / scales[:, None]).round()
    packed: Tensor = torch.ops.onednn.qlinear_prepack(whole.to(torch.int8), None)
    return packed, torch.stack([scales, whole.sum(1) * scales, bias])


def project(states: Tensor, weight: Tensor, terms: Tensor) -> Tensor:
    """What a linear layer makes of tokens, by a product of bytes; TorchScript takes it too.

    Args:
        states: float32 [N, K].
        weight: of `quantize_weight`, int8 [K, M].
        terms: of `quantize_weight`, float32 [3, M].

    Returns:
        float32 [N, M].
    """
    least = states.amin(1, True)
    step = (states.amax(1, True) - least).clamp_(min=1e-12) / 255.0  # [N, 1]
    # The half makes the cut that follows a rounding.
    whole = (states - (least - 0.5 * step)).div_(step).to(torch.uint8)
    # states = step * whole + least, up to the rounding
    product: Tensor = torch.ops.onednn.qlinear_pointwise(
        whole,
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


def activate(states: Tensor, activation: str, form: str) -> Tensor:
    """The activation by oneDNN's names for it; TorchScript takes it too."""
    if activation == "gelu":
        return functional.gelu(states, approximate=form)
    if activation == "relu":
        return states.relu_()
    if activation == "swish":
        return functional.silu(states)
    return states
