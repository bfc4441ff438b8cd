"""The contract between a network and what surrounds it: batch in, logits and weights out."""

from typing import NamedTuple, Protocol

from torch import Tensor

from model.batch import Batch


class ClassifierOutput(NamedTuple):
    """What a classifier returns.

    Args:
        logits: unnormalised scores of the classes, float32 [B, C].
        attention_weights: for each layer the weights of its heads, float32 [B, H, T, T]; empty
            unless asked for.
    """

    logits: Tensor
    attention_weights: tuple[Tensor, ...]


class Classifier(Protocol):
    """A network that tells classes of texts."""

    def __call__(self, batch: Batch, *, need_weights: bool = False) -> ClassifierOutput:
        """One forward pass over a batch of B texts of at most T tokens."""
        ...
