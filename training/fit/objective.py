"""What training makes small: the loss of a batch, and what the weights themselves add to it.

Legend: B batch, C classes.
"""

from torch import Tensor, nn
from torch.nn import functional

from training.fit.recipe import Recipe


def batch_loss(logits: Tensor, target: Tensor, recipe: Recipe) -> Tensor:
    """Mean cross-entropy. Of a sigmoid unit's two logits it is the binary cross-entropy.

    Args:
        logits: [B, C].
        target: classes, int64 [B], or their probabilities, float32 [B, C].
        recipe: its label smoothing is applied.
    """
    return functional.cross_entropy(logits, target, label_smoothing=recipe.label_smoothing)


def weight_penalty(network: nn.Module, recipe: Recipe) -> Tensor | float:
    """The recipe's factor times the sum of the squares of the word embedding.

    Args:
        network: its first embedding is that of the words.
        recipe: with the factor, `embedding_l2`.
    """
    if not recipe.embedding_l2:
        return 0.0
    words = next(module for module in network.modules() if isinstance(module, nn.Embedding))
    return recipe.embedding_l2 * words.weight.square().sum()
