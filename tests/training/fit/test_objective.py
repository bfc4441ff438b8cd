"""The loss of a batch and the penalty on the word embedding, against values worked out by hand."""

import math

import pytest
import torch

from tests.builders import tiny_conv_network, tiny_network
from training.fit.objective import batch_loss, class_weights, weight_penalty
from training.fit.recipe import Recipe, load_recipe
from training.fit.rows import Rows
from training.machine import Accelerator


def test_the_loss_of_a_sigmoid_unit_is_its_binary_cross_entropy() -> None:
    logits = torch.tensor([[0.0, 2.0], [0.0, -1.0]])
    target = torch.tensor([1, 1])

    loss = batch_loss(logits, target, load_recipe("course", {}))

    expected = (math.log(1 + math.exp(-2)) + math.log(1 + math.exp(1))) / 2
    assert float(loss) == pytest.approx(expected)


def test_smoothing_is_that_of_the_recipe() -> None:
    logits = torch.tensor([[0.0, 2.0]])
    recipe = load_recipe("course", {"label_smoothing": 0.2})

    loss = batch_loss(logits, torch.tensor([1]), recipe)

    right, wrong = math.log(1 + math.exp(-2)), math.log(1 + math.exp(2))
    assert float(loss) == pytest.approx(0.9 * right + 0.1 * wrong)


def test_the_penalty_is_of_the_squares_of_the_embedding() -> None:
    recipe = load_recipe("course", {})
    network = tiny_conv_network()
    encoder = tiny_network()

    penalty = weight_penalty(network, recipe)

    assert isinstance(penalty, torch.Tensor)
    expected = 0.001 * network.embedding.weight.square().sum()
    torch.testing.assert_close(penalty, expected)
    torch.autograd.backward(penalty)
    assert network.embedding.weight.grad is not None
    assert network.classifier.weight.grad is None
    torch.testing.assert_close(
        weight_penalty(encoder, recipe), 0.001 * encoder.embeddings.tokens.weight.square().sum()
    )


def test_no_factor_no_penalty() -> None:
    assert weight_penalty(tiny_network(), load_recipe("small", {})) == 0.0


def test_balanced_classes_weigh_the_same_in_all() -> None:
    label_ids = [0] * 6 + [2] * 2  # no row of class 1
    recipe = Recipe(class_weights="balanced")
    accelerator = Accelerator(torch.device("cpu"))

    weights = class_weights(Rows([], label_ids), recipe, accelerator)

    assert weights is not None
    torch.testing.assert_close(weights, torch.tensor([8 / 12, 0.0, 8 / 4]))
    assert float(weights[torch.tensor(label_ids)].mean()) == pytest.approx(1.0)
    assert class_weights(Rows([], label_ids), Recipe(), accelerator) is None


@pytest.mark.parametrize("soft", [False, True])
def test_the_weight_of_a_row_is_that_of_its_class(*, soft: bool) -> None:
    logits = torch.tensor([[0.0, 2.0], [0.0, -1.0]])
    target = torch.tensor([[1.0, 0.0], [0.0, 1.0]]) if soft else torch.tensor([0, 1])

    loss = batch_loss(logits, target, Recipe(), torch.tensor([0.5, 3.0]))

    first, second = math.log(1 + math.exp(2)), math.log(1 + math.exp(1))
    assert float(loss) == pytest.approx((0.5 * first + 3.0 * second) / 2)
