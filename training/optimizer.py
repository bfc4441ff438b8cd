"""AdamW with warm-up, linear decay and a running mean of the weights."""

from collections.abc import Iterable

import torch
from torch import Tensor, nn
from torch.optim import AdamW

_BETA1 = 0.9
# The running mean follows quickly at first: after n steps its memory is at most n / 10 long.
_YOUNG = 10


def build_optimizer(network: nn.Module, *, weight_decay: float, beta2: float = 0.98) -> AdamW:
    """AdamW (Loshchilov and Hutter 2019) over all parameters; its rate is set at every step.

    Args:
        network: on its device.
        weight_decay: of matrices; biases, norms and embeddings have none.
        beta2: decay of the mean of squared gradients.
    """
    embeddings = {
        id(parameter)
        for module in network.modules()
        if isinstance(module, nn.Embedding)
        for parameter in module.parameters()
    }
    decayed: list[nn.Parameter] = []
    free: list[nn.Parameter] = []
    for parameter in network.parameters():
        is_free = parameter.ndim < 2 or id(parameter) in embeddings
        (free if is_free else decayed).append(parameter)
    groups = [
        {"params": decayed, "weight_decay": weight_decay},
        {"params": free, "weight_decay": 0.0},
    ]
    # The fused form is five times faster on a CPU.
    return AdamW(groups, lr=0.0, betas=(_BETA1, beta2), fused=True)


def learning_rate(
    step: int, *, total_steps: int, warmup_share: float, peak: float, falls: bool = True
) -> float:
    """The rate of a step: up in a line from 0, then down in a line to 0 or level.

    Args:
        step: counted from 0.
        total_steps: of the whole run.
        warmup_share: share of the steps on the way up.
        peak: the highest rate.
        falls: whether it falls after that.
    """
    warmup_steps = warmup_share * total_steps
    up = (step + 1) / warmup_steps if warmup_steps else 1.0
    if not falls:
        return peak * min(1.0, up)
    down = (total_steps - step) / max(total_steps - warmup_steps, 1.0)
    return peak * max(0.0, min(1.0, up, down))


def update_average(
    average: Iterable[Tensor], parameters: Iterable[Tensor], *, decay: float, step: int
) -> None:
    """Moves a running mean of the weights towards them (Polyak and Juditsky 1992).

    Args:
        average: changed in place.
        parameters: the weights after this step, in the same order.
        decay: share of the mean that stays, in the long run.
        step: counted from 0.
    """
    share = 1.0 - min(decay, (step + 1) / (step + _YOUNG))
    with torch.no_grad():
        torch._foreach_lerp_(list(average), list(parameters), share)
