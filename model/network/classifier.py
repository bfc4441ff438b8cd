"""Defines what a network takes and returns: a batch in, logits and attention weights out."""

from typing import NamedTuple, Protocol

from torch import Tensor

from model.network.batch import Batch


class ClassifierOutput(NamedTuple):
    """The output of a classifier.

    Args:
        logits: unnormalised scores of the classes, float32 [B, C].
        attention_weights: the weights of each layer, float32 [B, H, T, T]; empty unless
            requested.
    """

    logits: Tensor
    attention_weights: tuple[Tensor, ...]


class Classifier(Protocol):
    """A network that classifies texts."""

    def __call__(self, batch: Batch, *, need_weights: bool = False) -> ClassifierOutput:
        """Runs a forward pass over a batch of B texts of at most T tokens."""
        ...
