"""Pads encodings of different lengths into one batch of tensors.

Legend: B batch, T tokens of the longest text, L layers, H heads.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain

import numpy as np
import torch
from torch import Tensor

from model.tokenization.tokenizer import Encoding


@dataclass(frozen=True, slots=True)
class Batch:
    """The input of a classifier.

    Args:
        input_ids: token ids, int64 [B, T].
        key_padding_mask: True where a position is padding, bool [B, T]; None without padding.
            Each row has at least one token.
        head_mask: factor of each head's output, float32 [L, B, H]; None means 1 for all.
    """

    input_ids: Tensor
    key_padding_mask: Tensor | None
    head_mask: Tensor | None = None

    def to(self, device: torch.device) -> "Batch":
        """Copies the batch to a device; for a GPU, without waiting for it."""
        padding, mask = self.key_padding_mask, self.head_mask
        return Batch(
            send(self.input_ids, device),
            None if padding is None else send(padding, device),
            None if mask is None else send(mask, device),
        )


def collate(
    encodings: Sequence[Encoding],
    *,
    pad_token_id: int,
    device: torch.device | None = None,
    pad_to: int | None = None,
) -> Batch:
    """Pads token ids on the right to the longest text of the batch.

    Args:
        encodings: B texts, at least one.
        pad_token_id: the id that fills the rest of a row.
        device: where the tensors go; None means the CPU.
        pad_to: pads to this length instead, for a network that reads one fixed length.

    Returns:
        A batch of B rows. Without padding its mask is None: then fused attention kernels take
        their fastest path.

    Raises:
        ValueError: there is no encoding, one has no tokens, or `pad_to` is below the longest text.
    """
    if not encodings:
        raise ValueError("a batch needs at least one encoding, got 0")
    lengths = np.fromiter((len(encoding.input_ids) for encoding in encodings), np.int64)
    longest = int(lengths.max()) if pad_to is None else pad_to
    if longest < lengths.max():
        raise ValueError(f"pad_to is {pad_to}, but the longest text has {lengths.max()} tokens")
    if lengths.min() < 1:
        raise ValueError(f"text {lengths.argmin()} of the batch has no tokens, needs at least 1")
    # One flat array: a list for each row costs several times as much.
    ids = np.fromiter(chain.from_iterable(item.input_ids for item in encodings), np.int64)
    mask = _join_head_masks(encodings)
    if lengths.min() == longest:
        batch = Batch(torch.from_numpy(ids.reshape(len(lengths), longest)), None, mask)
    else:
        padding = np.arange(longest) >= lengths[:, None]  # [B, T]
        padded = np.full(padding.shape, pad_token_id)
        padded[~padding] = ids
        batch = Batch(torch.from_numpy(padded), torch.from_numpy(padding), mask)
    return batch if device is None else batch.to(device)


def _join_head_masks(encodings: Sequence[Encoding]) -> Tensor | None:
    """Joins the head masks of texts to [L, B, H]; None if no text has one."""
    masks = [encoding.head_mask for encoding in encodings]
    shape = next((np.shape(mask) for mask in masks if mask is not None), None)
    if shape is None:
        return None
    whole = np.ones(shape, np.float32)
    rows = [whole if mask is None else np.asarray(mask, np.float32) for mask in masks]
    return torch.from_numpy(np.stack(rows, axis=1))


def send(tensor: Tensor, device: torch.device) -> Tensor:
    """Copies a tensor from the host to a device; a GPU keeps computing during the copy."""
    if device.type != "cuda":
        return tensor.to(device)
    return tensor.pin_memory().to(device, non_blocking=True)
