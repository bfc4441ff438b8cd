"""Dropout whose mask takes a byte of randomness for each element.

torch's own drawing was a tenth of a training step on a processor of AMD's
(docs/decisions/0013-default-model.md).
"""

import torch
from torch import Tensor, nn

_LEVELS = 256
_LEAST = torch.iinfo(torch.int64).min
_BYTES = 8  # of an int64


class ByteDropout(nn.Dropout):
    """As `torch.nn.Dropout`; on a CPU its probability is the nearest multiple of 1/256."""

    def forward(self, input: Tensor) -> Tensor:
        """Zeroes elements by chance, and scales the others so that the mean stays.

        Args:
            input: of any shape.

        Returns:
            The same shape.
        """
        kept = round((1.0 - self.p) * _LEVELS)
        if not self.training or input.device.type != "cpu" or not 0 < kept < _LEVELS:
            return super().forward(input)
        count = input.numel()
        numbers = torch.empty(-(-count // _BYTES), dtype=torch.int64).random_(_LEAST, None)
        drawn = numbers.view(torch.uint8)[:count].view(input.shape)
        return input * (drawn < kept).to(input.dtype).mul_(_LEVELS / kept)


def use_byte_dropout(network: nn.Module) -> None:
    """Puts `ByteDropout` in the place of each `torch.nn.Dropout`.

    Args:
        network: changed in place; its weights and their names stay.
    """
    for module in list(network.modules()):
        for name, child in module.named_children():
            if type(child) is nn.Dropout:
                setattr(module, name, ByteDropout(child.p))
