"""Chooses the attention kernel of a training step: on a CPU the fused one can be slower."""

from contextlib import AbstractContextManager, nullcontext

import torch
from torch.nn.attention import SDPBackend, sdpa_kernel

# Up to this many tokens a step is faster unfused (docs/decisions/0013-default-model.md).
_LONGEST_UNFUSED = 160


def attention_kernel(length: int, device: torch.device) -> AbstractContextManager[object]:
    """Returns the context for the forward pass of a step. It also decides the backward pass."""
    if device.type != "cpu" or length > _LONGEST_UNFUSED:
        return nullcontext()
    return sdpa_kernel([SDPBackend.MATH])
