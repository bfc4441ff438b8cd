"""Drops features and tokens at random in training.

A process that has some rows of a step draws the masks of all of them, and takes those of its rows.
So a row loses the same features on any number of processes.
"""

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional
from torch.overrides import TorchFunctionMode

from model.tokenization.tokenizer import Tokenizer
from model.types import Batch
from training.device import Accelerator

_LEVELS = 256
_LEAST = torch.iinfo(torch.int64).min
_BYTES = 8  # of an int64


@dataclass(frozen=True, slots=True)
class RowSlice:
    """Some rows of a step, of which `count` count: none in a pass without a row of its own."""

    total: int
    first: int
    step: int
    count: int

    def of(self, drawn: Tensor) -> Tensor:
        """Takes these rows of what was drawn for all, [total, ...]."""
        return drawn[self.first :: self.step]


_slices: list[RowSlice] = []


@contextmanager
def draw_for_slice(part: RowSlice) -> Iterator[None]:
    """Draws masks for all rows of a step, in a forward pass of some of them on a CPU."""
    _slices.append(part)
    try:
        with _PartialDropout(part):
            yield
    finally:
        _slices.pop()


class _PartialDropout(TorchFunctionMode):
    """Replaces torch's dropout, also that of attention weights, by one of a part."""

    def __init__(self, part: RowSlice) -> None:
        super().__init__()
        self._part = part

    def __torch_function__(
        self,
        func: Callable[..., Any],
        types: Sequence[type],
        args: tuple[Any, ...] = (),
        kwargs: Mapping[str, Any] | None = None,
    ) -> Any:  # noqa: ANN401 - what the function returns
        options = dict(kwargs or {})
        if func is functional.dropout:
            return self._dropout(*args, **options)
        if func is functional.scaled_dot_product_attention and options.get("dropout_p"):
            return self._attention(*args, **options)
        return func(*args, **options)

    def _kept(self, like: Sequence[int], dtype: torch.dtype, share: float) -> Tensor:
        """Draws as torch does: a 1 for what stays, else a 0."""
        drawn = torch.empty((self._part.total, *like[1:]), dtype=dtype).bernoulli_(1.0 - share)
        return self._part.of(drawn)

    def _dropout(
        self, input: Tensor, p: float = 0.5, training: bool = True, inplace: bool = False
    ) -> Tensor:
        if not training or not p:
            return input
        del inplace
        return input * self._kept(input.shape, input.dtype, p).div(1.0 - p)

    def _attention(
        self,
        query: Tensor,
        key: Tensor,
        value: Tensor,
        *,
        attn_mask: Tensor | None = None,
        dropout_p: float = 0.0,
    ) -> Tensor:
        shape = (*query.shape[:-1], key.shape[-2])  # [B, H, Q, K]
        kept = self._kept(shape, query.dtype, dropout_p).div(1.0 - dropout_p)
        scores = query @ key.transpose(-2, -1) / math.sqrt(query.shape[-1])
        if attn_mask is not None:
            scores = scores + attn_mask
        return (scores.softmax(dim=-1).to(query.dtype) * kept) @ value  # [B, H, Q, V]


class ByteDropout(nn.Dropout):
    """Drops like `torch.nn.Dropout`; on a CPU with the nearest multiple of 1/256.

    One random byte for each element is faster than torch's own mask, a tenth of a training step.
    """

    def forward(self, input: Tensor) -> Tensor:
        """Zeroes random elements, and scales the others so that the mean stays."""
        kept = round((1.0 - self.p) * _LEVELS)
        if not self.training or input.device.type != "cpu" or not 0 < kept < _LEVELS:
            return super().forward(input)
        shape = (_slices[-1].total, *input.shape[1:]) if _slices else tuple(input.shape)
        count = math.prod(shape)
        numbers = torch.empty(-(-count // _BYTES), dtype=torch.int64).random_(_LEAST, None)
        drawn = numbers.view(torch.uint8)[:count].view(shape)
        if _slices:
            drawn = _slices[-1].of(drawn)
        return input * (drawn < kept).to(input.dtype).mul_(_LEVELS / kept)


def use_byte_dropout(network: nn.Module) -> None:
    """Replaces each `torch.nn.Dropout` by `ByteDropout`."""
    for module in list(network.modules()):
        for name, child in module.named_children():
            if type(child) is nn.Dropout:
                setattr(module, name, ByteDropout(child.p))


class TokenDropout:
    """Replaces random tokens of a batch by `[UNK]`, if the tokenizer has it; never special ones."""

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
        if _slices:
            shape = (_slices[-1].total, input_ids.shape[1])
            drawn = _slices[-1].of(torch.rand(shape, device=input_ids.device))
        else:
            drawn = torch.rand(input_ids.shape, device=input_ids.device)
        drop = drawn < self._share  # [B, T]
        drop &= ~torch.isin(input_ids, self._special_ids)
        return Batch(input_ids.masked_fill(drop, self._unknown_id), batch.key_padding_mask)
