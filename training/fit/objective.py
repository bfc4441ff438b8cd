"""Computes the loss of a batch and the penalty on the weights.

Legend: B batch, C classes.
"""

from torch import Tensor, nn
from torch.nn import functional

from training.fit.recipe import Recipe


def batch_loss(logits: Tensor, target: Tensor, recipe: Recipe) -> Tensor:
    """Computes mean cross-entropy; for a sigmoid unit's two logits, binary cross-entropy.

    Args:
        logits: [B, C].
        target: classes, int64 [B], or their probabilities, float32 [B, C].
        recipe: its label smoothing is applied.
    """
    return functional.cross_entropy(logits, target, label_smoothing=recipe.label_smoothing)


def weight_penalty(network: nn.Module, recipe: Recipe) -> Tensor | float:
    """Computes the sum of squares of the word embedding, times the factor of the recipe.

    Args:
        network: its first embedding must be the word embedding.
        recipe: with the factor, `embedding_l2`.
    """
    if not recipe.embedding_l2:
        return 0.0
    words = next(module for module in network.modules() if isinstance(module, nn.Embedding))
    return recipe.embedding_l2 * words.weight.square().sum()
