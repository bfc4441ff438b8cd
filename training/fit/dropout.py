"""Drops features and tokens at random in training.

The mask of features uses one random byte for each element. torch's own took a tenth of a training
step on an AMD processor (docs/decisions/0013-default-model.md).
"""

import torch
from torch import Tensor, nn

from model.batch import Batch
from model.tokenizer import Tokenizer
from training.machine import Accelerator

_LEVELS = 256
_LEAST = torch.iinfo(torch.int64).min
_BYTES = 8  # of an int64


class ByteDropout(nn.Dropout):
    """Drops like `torch.nn.Dropout`; on a CPU with the nearest multiple of 1/256."""

    def forward(self, input: Tensor) -> Tensor:
        """Zeroes random elements, and scales the others so that the mean stays.

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
    """Replaces each `torch.nn.Dropout` by `ByteDropout`.

    Args:
        network: changed in place; its weights and their names stay.
    """
    for module in list(network.modules()):
        for name, child in module.named_children():
            if type(child) is nn.Dropout:
                setattr(module, name, ByteDropout(child.p))


class TokenDropout:
    """Replaces random tokens of a batch by `[UNK]`, never special ones.

    Args:
        tokenizer: of the texts. Without `[UNK]` nothing is dropped.
        share: of the tokens.
        accelerator: where the batches are.
    """

    def __init__(self, tokenizer: Tokenizer, share: float, accelerator: Accelerator) -> None:
        self._share = share
        self._unknown_id = tokenizer.token_id("[UNK]")
        specials = [tokenizer.token_id(token) for token in tokenizer.special_tokens().values()]
        self._special_ids = accelerator.send(
            torch.tensor([number for number in specials if number is not None])
        )

    def __call__(self, batch: Batch) -> Batch:
        """Returns the batch with random tokens dropped."""
        if not self._share or self._unknown_id is None:
            return batch
        input_ids = batch.input_ids
        drop = torch.rand(input_ids.shape, device=input_ids.device) < self._share  # [B, T]
        drop &= ~torch.isin(input_ids, self._special_ids)
        return Batch(input_ids.masked_fill(drop, self._unknown_id), batch.key_padding_mask)
