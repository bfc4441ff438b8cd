"""Builds AdamW, schedules its rate and averages the weights."""

from collections.abc import Iterable

import torch
from torch import Tensor, nn
from torch.optim import AdamW

_BETA1 = 0.9
# The running mean follows quickly at first: after n steps it remembers at most n / 10 steps.
_YOUNG = 10


def build_optimizer(network: nn.Module, *, weight_decay: float, beta2: float = 0.98) -> AdamW:
    """Builds AdamW (Loshchilov and Hutter 2019); only matrices decay. Each step sets the rate."""
    embeddings = {
        id(parameter)
        for module in network.modules()
        if isinstance(module, nn.Embedding)
        for parameter in module.parameters()
    }
    decaying: list[nn.Parameter] = []
    free: list[nn.Parameter] = []
    moving = (each for each in network.parameters() if each.requires_grad)
    for parameter in moving:
        is_free = parameter.ndim < 2 or id(parameter) in embeddings
        (free if is_free else decaying).append(parameter)
    groups = [(decaying, weight_decay), (free, 0.0)]
    return AdamW(
        [{"params": some, "weight_decay": decay} for some, decay in groups if some],
        lr=0.0,
        betas=(_BETA1, beta2),
        fused=True,  # five times faster on a CPU
    )


def learning_rate(
    step: int, *, total_steps: int, warmup_share: float, peak: float, falls: bool = True
) -> float:
    """Computes the rate of a step, from 0 on: a linear rise, then a linear fall to 0 or none."""
    warmup_steps = warmup_share * total_steps
    up = (step + 1) / warmup_steps if warmup_steps else 1.0
    if not falls:
        return peak * min(1.0, up)
    down = (total_steps - step) / max(total_steps - warmup_steps, 1.0)
    return peak * max(0.0, min(1.0, up, down))


def update_average(
    average: Iterable[Tensor], parameters: Iterable[Tensor], *, decay: float, step: int
) -> None:
    """Updates a running mean of the weights in place (Polyak and Juditsky 1992)."""
    share = 1.0 - min(decay, (step + 1) / (step + _YOUNG))
    with torch.no_grad():
        torch._foreach_lerp_(list(average), list(parameters), share)
