"""Which kernel computes the attention of a step: a CPU's fused one is not always the fastest."""

from contextlib import AbstractContextManager, nullcontext

import torch
from torch.nn.attention import SDPBackend, sdpa_kernel

# Up to here a step is faster without it (docs/decisions/0013-default-model.md).
_LONGEST_UNFUSED = 160


def attention_kernel(length: int, device: torch.device) -> AbstractContextManager[object]:
    """Where the forward pass of a training step runs, which decides the backward one too.

    Args:
        length: tokens of the longest text of the batch.
        device: where the network is; other devices than a CPU keep their own choice.
    """
    if device.type != "cpu" or length > _LONGEST_UNFUSED:
        return nullcontext()
    return sdpa_kernel([SDPBackend.MATH])
