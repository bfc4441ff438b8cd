"""From the lengths of texts to batches of like lengths, in an order that seed and epoch decide."""

import random
from collections.abc import Sequence

# In a pass that only asks: the most tokens, padding counted, unless something else is said.
MAX_BATCH_TOKENS = 2048
# Within so many batches texts are sorted by length: little padding, and still a mixed order.
_BATCHES_SORTED_TOGETHER = 50


def make_batches(
    lengths: Sequence[int], *, batch_size: int, seed: int, epoch: int
) -> list[list[int]]:
    """Groups all texts of an epoch.

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
