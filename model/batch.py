"""From encodings of unequal length to one padded batch of tensors.

Legend: B batch, T tokens of the longest text.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from model.tokenizer import Encoding


@dataclass(frozen=True, slots=True)
class Batch:
    """What a classifier reads.

    Args:
        input_ids: token ids, int64 [B, T].
        key_padding_mask: True where a position is padding, bool [B, T]; None where none is.
    """

    input_ids: Tensor
    key_padding_mask: Tensor | None


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
        pad_token_id: the id that fills what is left.
        device: where the tensors go; the CPU if None.
        pad_to: a fixed length instead of the longest, for a network that reads only one.

    Returns:
        A batch of B rows. The mask is None if no row is padded, so that a fused attention kernel
        may take its fastest path.

    Raises:
        ValueError: there is no encoding, or `pad_to` is below the longest text.
    """
    if not encodings:
        raise ValueError("a batch needs at least one encoding, got 0")
    lengths = [len(encoding.input_ids) for encoding in encodings]
    longest = max(lengths) if pad_to is None else pad_to
    if longest < max(lengths):
        raise ValueError(f"pad_to is {pad_to}, but the longest text has {max(lengths)} tokens")
    rows = [
        [*encoding.input_ids, *[pad_token_id] * (longest - length)]
        for encoding, length in zip(encodings, lengths, strict=True)
    ]
    input_ids = torch.tensor(rows, dtype=torch.int64)  # [B, T]
    key_padding_mask = None
    if min(lengths) < longest:
        positions = torch.arange(longest)  # [T]
        key_padding_mask = positions >= torch.tensor(lengths).unsqueeze(1)  # [B, T]
    if device is not None and device.type != "cpu":
        input_ids = input_ids.to(device)
        if key_padding_mask is not None:
            key_padding_mask = key_padding_mask.to(device)
    return Batch(input_ids=input_ids, key_padding_mask=key_padding_mask)
