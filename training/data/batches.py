"""Groups texts of similar length into batches, for training and for inference."""

import random
from collections.abc import Iterator, Sequence

# Texts are sorted by length within this many batches: little padding, yet a random order.
_BATCHES_SORTED_TOGETHER = 50


def make_batches(
    lengths: Sequence[int], *, batch_size: int, seed: int, epoch: int
) -> list[list[int]]:
    """Groups the texts of an epoch, counted from 0; returns indices, each once.

    The same arguments give the same batches. The last one of a sorted stretch may have fewer texts.
    """
    order = random.Random(f"{seed}/{epoch}")  # noqa: S311 - not for secrets
    indices = list(range(len(lengths)))
    order.shuffle(indices)
    stretch = batch_size * _BATCHES_SORTED_TOGETHER
    batches = []
    for start in range(0, len(indices), stretch):
        alike = sorted(indices[start : start + stretch], key=lengths.__getitem__)
        batches += [alike[at : at + batch_size] for at in range(0, len(alike), batch_size)]
    order.shuffle(batches)
    return batches


def choose_batch_tokens(device: str) -> int:
    """Returns the default limit of a batch in inference on a device, padding counted."""
    return 2_048 if device == "cpu" else 32_768


def batches_by_length(lengths: Sequence[int], *, max_batch_tokens: int) -> Iterator[list[int]]:
    """Groups texts for inference, longest first; yields the indices of each batch.

    A batch too large for the memory then fails at the start, not at the end. The limit counts
    padding; a text longer than that is a batch of its own.
    """
    indices = sorted(range(len(lengths)), key=lengths.__getitem__, reverse=True)
    start = 0
    while start < len(indices):
        end = start + max(1, max_batch_tokens // lengths[indices[start]])
        yield indices[start:end]
        start = end
