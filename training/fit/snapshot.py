"""From the weights and moments of a run to named tensors, and back."""

from collections.abc import Mapping

from torch import Tensor, nn
from torch.optim import Optimizer

_WEIGHTS, _AVERAGE, _BEST, _OPTIMIZER = "weights", "average", "best", "optimizer"


def clone(network: nn.Module) -> dict[str, Tensor]:
    """The weights of a network as they are now, whatever becomes of them."""
    return {name: tensor.detach().clone() for name, tensor in network.state_dict().items()}


def gather(
    network: nn.Module, averaged: nn.Module, best: Mapping[str, Tensor], optimizer: Optimizer
) -> dict[str, Tensor]:
    """Names every tensor that the state of a run needs.

    Args:
        network: that is trained.
        averaged: holds the mean of its weights; the same network if there is no mean.
        best: weights of the best epoch.
        optimizer: of the network.
    """
    moments = {
        f"{number}.{name}": tensor
        for number, state in optimizer.state_dict()["state"].items()
        for name, tensor in state.items()
    }
    parts: dict[str, Mapping[str, Tensor]] = {
        _WEIGHTS: network.state_dict(),
        _BEST: best,
        _OPTIMIZER: moments,
    }
    if averaged is not network:
        parts[_AVERAGE] = averaged.state_dict()
    return {f"{part}/{name}": tensor for part in parts for name, tensor in parts[part].items()}


def restore(
    tensors: Mapping[str, Tensor], network: nn.Module, averaged: nn.Module, optimizer: Optimizer
) -> dict[str, Tensor]:
    """Gives a run what `gather` named.

    Args:
        tensors: as `gather` returned them, for the same arguments.
        network: filled.
        averaged: filled.
        optimizer: filled.

    Returns:
        The weights of the best epoch.
    """
    network.load_state_dict(_part(tensors, _WEIGHTS))
    if averaged is not network:
        averaged.load_state_dict(_part(tensors, _AVERAGE))
    state: dict[int, dict[str, Tensor]] = {}
    for name, tensor in _part(tensors, _OPTIMIZER).items():
        number, _, moment = name.partition(".")
        state.setdefault(int(number), {})[moment] = tensor
    groups = optimizer.state_dict()["param_groups"]
    optimizer.load_state_dict({"state": state, "param_groups": groups})
    return _part(tensors, _BEST)


def _part(tensors: Mapping[str, Tensor], part: str) -> dict[str, Tensor]:
    prefix = f"{part}/"
    return {
        name.removeprefix(prefix): tensor
        for name, tensor in tensors.items()
        if name.startswith(prefix)
    }
