"""Copies host tensors to a device without making Python wait."""

import torch
from torch import Tensor


def send(tensor: Tensor, device: torch.device) -> Tensor:
    """Copies a tensor to a device; a GPU keeps computing during the copy.

    Args:
        tensor: on the host.
        device: where the copy goes.
    """
    if device.type != "cuda":
        return tensor.to(device)
    return tensor.pin_memory().to(device, non_blocking=True)
