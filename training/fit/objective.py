"""Computes the loss of a batch of B rows in C classes, and the penalty on the weights."""

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional

from training.device import Accelerator
from training.fit.recipe import Recipe
from training.fit.rows import EncodedRows


def class_weights(rows: EncodedRows, recipe: Recipe, accelerator: Accelerator) -> Tensor | None:
    """Computes the weight of a row of each class, float32 [C]; None if all rows count alike.

    With `balanced` it is N / (C * rows of the class), whose mean over all rows is 1.
    """
    if recipe.class_weights == "none":
        return None
    counts = np.bincount(rows.label_ids)  # [C]
    occurs = counts > 0
    weights = np.zeros(len(counts), np.float32)
    weights[occurs] = counts.sum() / (occurs.sum() * counts[occurs])
    return accelerator.send(torch.from_numpy(weights))


def batch_loss(
    logits: Tensor,
    target: Tensor,
    recipe: Recipe,
    weights: Tensor | None = None,
    *,
    leave_out: bool = False,
) -> Tensor:
    """Computes mean cross-entropy; for a sigmoid unit's two logits, binary cross-entropy.

    Targets are classes, int64 [B], or their probabilities, float32 [B, C]; a row of these has the
    weight [C] of its most probable class. With `leave_out` some are `LEFT_OUT`: no part of the
    softmax of their rows, so nothing is learnt about them. Label smoothing is not applied then.
    """
    if leave_out:
        return _without_some(logits, target, weights)
    smoothing = recipe.label_smoothing
    if weights is None:
        return functional.cross_entropy(logits, target, label_smoothing=smoothing)
    losses = functional.cross_entropy(logits, target, label_smoothing=smoothing, reduction="none")
    classes = target if target.dim() == 1 else target.argmax(dim=-1)
    return (losses * weights[classes]).mean()


def _without_some(logits: Tensor, target: Tensor, weights: Tensor | None) -> Tensor:
    left_out = target < 0.0  # [B, C]
    log_probabilities = logits.masked_fill(left_out, -torch.inf).log_softmax(dim=-1)
    # 0 times an infinite logarithm is not a number, so it is replaced before.
    losses = -(target * log_probabilities.masked_fill(left_out, 0.0)).sum(dim=-1)  # [B]
    return (losses if weights is None else losses * weights[target.argmax(dim=-1)]).mean()


def divergence(logits: Tensor, perturbed: Tensor) -> Tensor:
    """Computes the mean Kullback-Leibler divergence of perturbed texts; the others are fixed."""
    targets = logits.detach().log_softmax(dim=-1)
    return functional.kl_div(
        perturbed.log_softmax(dim=-1), targets, reduction="batchmean", log_target=True
    )


def weight_penalty(network: nn.Module, recipe: Recipe) -> Tensor | float:
    """Computes the sum of squares of the word embedding, times the factor of the recipe."""
    if not recipe.embedding_l2:
        return 0.0
    return recipe.embedding_l2 * word_embedding(network).weight.square().sum()


def word_embedding(network: nn.Module) -> nn.Embedding:
    """Returns the embedding of words, which is the first one of every network here."""
    return next(module for module in network.modules() if isinstance(module, nn.Embedding))
