"""Builds AdamW, schedules its rate and averages the weights."""

import re
from collections import defaultdict
from collections.abc import Iterable

import torch
from torch import Tensor, nn
from torch.optim import AdamW

_BETA1 = 0.9
_LAYER = re.compile(r"(?:^|\.)layers?\.(\d+)\.")  # ours, and as transformers has it
# The running mean follows quickly at first: after n steps it remembers at most n / 10 steps.
_YOUNG = 10


def build_optimizer(
    network: nn.Module, *, weight_decay: float, beta2: float = 0.98, layer_decay: float = 1.0
) -> AdamW:
    """Builds AdamW (Loshchilov and Hutter 2019) over all parameters. Each step sets the rate.

    Args:
        weight_decay: decay of matrices; biases, norms and embeddings do not decay.
        beta2: decay of the mean of squared gradients.
        layer_decay: the rate of a layer, divided by the rate of the layer above. Each group of
            the optimizer holds its factor of the rate as `scale`.
    """
    embeddings = {
        id(parameter)
        for module in network.modules()
        if isinstance(module, nn.Embedding)
        for parameter in module.parameters()
    }
    top = 1 + max((_depth(name, 0) for name, _ in network.named_parameters()), default=0)
    groups: dict[tuple[int, bool], list[nn.Parameter]] = defaultdict(list)
    for name, parameter in network.named_parameters():
        is_free = parameter.ndim < 2 or id(parameter) in embeddings
        depth = top if layer_decay == 1.0 else _depth(name, top)
        groups[depth, is_free].append(parameter)
    # The fused form is five times faster on a CPU.
    return AdamW(
        [
            {
                "params": parameters,
                "weight_decay": 0.0 if is_free else weight_decay,
                "scale": layer_decay ** (top - depth),
            }
            for (depth, is_free), parameters in groups.items()
        ],
        lr=0.0,
        betas=(_BETA1, beta2),
        fused=True,
    )


def _depth(name: str, top: int) -> int:
    """Returns 0 for embeddings, 1 and up for layers, the top for what reads the last layer."""
    layer = _LAYER.search(name)
    if layer is not None:
        return int(layer[1]) + 1
    return top if name.startswith(("pooler.", "classifier.")) else 0


def learning_rate(
    step: int, *, total_steps: int, warmup_share: float, peak: float, falls: bool = True
) -> float:
    """Computes the rate of a step: a linear rise from 0, then a linear fall to 0 or none.

    Args:
        step: counted from 0.
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
    """Updates a running mean of the weights in place (Polyak and Juditsky 1992)."""
    share = 1.0 - min(decay, (step + 1) / (step + _YOUNG))
    with torch.no_grad():
        torch._foreach_lerp_(list(average), list(parameters), share)
