"""Groups texts of like lengths into batches, for training and for passes that only ask."""

import random
from collections.abc import Iterator, Sequence

# In a pass that only asks: the most tokens, padding counted, unless something else is said.
MAX_BATCH_TOKENS = 2048
# Within so many batches texts are sorted by length: little padding, and still a mixed order.
_BATCHES_SORTED_TOGETHER = 50


def make_batches(
    lengths: Sequence[int], *, batch_size: int, seed: int, epoch: int
) -> list[list[int]]:
    """Groups all texts of an epoch, in an order that seed and epoch decide.

    Args:
        lengths: tokens of each text.
        batch_size: texts in a batch; the last of a stretch may have fewer.
        seed: of the run.
        epoch: counted from 0.

    Returns:
        Places of the texts, each once; the same for the same arguments.
    """
    order = random.Random(f"{seed}/{epoch}")  # noqa: S311 - not for secrets
    places = list(range(len(lengths)))
    order.shuffle(places)
    stretch = batch_size * _BATCHES_SORTED_TOGETHER
    batches = []
    for start in range(0, len(places), stretch):
        alike = sorted(places[start : start + stretch], key=lengths.__getitem__)
        batches += [alike[at : at + batch_size] for at in range(0, len(alike), batch_size)]
    order.shuffle(batches)
    return batches


def batches_by_length(lengths: Sequence[int], *, max_batch_tokens: int) -> Iterator[list[int]]:
    """Groups texts for a pass that only asks, the longest first.

    Starting with the longest, a batch too large for the memory fails at once and not at the end.

    Args:
        lengths: tokens of each text.
        max_batch_tokens: the most tokens in a batch, padding counted; a text longer than that is
            a batch of its own.

    Yields:
        Places of the texts of a batch; each text is in one.
    """
    places = sorted(range(len(lengths)), key=lengths.__getitem__, reverse=True)
    start = 0
    while start < len(places):
        end = start + max(1, max_batch_tokens // lengths[places[start]])
        yield places[start:end]
        start = end
