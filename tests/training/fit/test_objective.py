"""The loss of a batch and the penalty on the word embedding, against values worked out by hand."""

import math

import numpy as np
import pytest
import torch

from tests.builders import tiny_conv_network, tiny_network
from training.device import Accelerator
from training.fit.objective import batch_loss, class_weights, weight_penalty
from training.fit.recipe import Recipe, load_recipe
from training.fit.rows import LEFT_OUT, EncodedRows


def test_the_loss_of_a_sigmoid_unit_is_its_binary_cross_entropy() -> None:
    logits = torch.tensor([[0.0, 2.0], [0.0, -1.0]])
    target = torch.tensor([1, 1])
    loss = batch_loss(logits, target, load_recipe("course", {}))
    expected = (math.log(1 + math.exp(-2)) + math.log(1 + math.exp(1))) / 2
    assert float(loss) == pytest.approx(expected)


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


def test_balanced_classes_weigh_the_same_in_all() -> None:
    label_ids = [0] * 6 + [2] * 2  # no row of class 1
    recipe = Recipe(class_weights="balanced")
    accelerator = Accelerator(torch.device("cpu"))
    weights = class_weights(EncodedRows([], label_ids), recipe, accelerator)
    assert weights is not None
    torch.testing.assert_close(weights, torch.tensor([8 / 12, 0.0, 8 / 4]))
    assert float(weights[torch.tensor(label_ids)].mean()) == pytest.approx(1.0)
    assert class_weights(EncodedRows([], label_ids), Recipe(), accelerator) is None


@pytest.mark.parametrize("soft", [False, True])
def test_the_weight_of_a_row_is_that_of_its_class(*, soft: bool) -> None:
    logits = torch.tensor([[0.0, 2.0], [0.0, -1.0]])
    target = torch.tensor([[1.0, 0.0], [0.0, 1.0]]) if soft else torch.tensor([0, 1])
    loss = batch_loss(logits, target, Recipe(), torch.tensor([0.5, 3.0]))
    first, second = math.log(1 + math.exp(2)), math.log(1 + math.exp(1))
    assert float(loss) == pytest.approx((0.5 * first + 3.0 * second) / 2)


def test_a_class_that_is_left_out_is_no_part_of_the_softmax() -> None:
    logits = torch.tensor([[1.0, 9.0, 2.0], [0.0, 1.0, 3.0]], requires_grad=True)
    target = torch.tensor([[0.0, LEFT_OUT, 1.0], [0.25, 0.5, 0.25]])
    loss = batch_loss(logits, target, Recipe(), leave_out=True)
    between = math.log(1 + math.exp(-1))
    total = math.log(1 + math.e + math.exp(3))
    whole = 0.25 * total + 0.5 * (total - 1) + 0.25 * (total - 3)
    assert float(loss.detach()) == pytest.approx((between + whole) / 2)
    torch.autograd.backward(loss)
    assert logits.grad is not None
    assert logits.grad[0, 1] == 0.0
    assert bool(logits.grad.isfinite().all())


def test_a_class_that_is_left_out_and_weights_of_classes() -> None:
    logits = torch.tensor([[1.0, 9.0, 2.0]])
    target = torch.tensor([[0.0, LEFT_OUT, 1.0]])
    loss = batch_loss(logits, target, Recipe(), torch.tensor([1.0, 1.0, 3.0]), leave_out=True)
    assert float(loss) == pytest.approx(3 * math.log(1 + math.exp(-1)))


@pytest.mark.parametrize(
    ("targets", "expected"),
    [(None, False), ([[1.0, 0.0, 0.0]], False), ([[1.0, LEFT_OUT, 0.0]], True)],
)
def test_rows_know_whether_they_leave_classes_out(
    targets: list[list[float]] | None, expected: bool
) -> None:
    array = None if targets is None else np.array(targets, np.float32)
    assert EncodedRows([], [], array).leave_out is expected
