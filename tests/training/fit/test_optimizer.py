"""The learning rate, what decays, and the running mean of the weights."""

import pytest
import torch
from torch import nn

from tests.builders import tiny_network
from training.fit.optimizer import build_optimizer, learning_rate, update_average


def test_the_rate_climbs_and_falls_in_lines() -> None:
    rates = [learning_rate(step, total_steps=10, warmup_share=0.2, peak=1.0) for step in range(10)]
    assert rates == [0.5, 1.0, 1.0, 0.875, 0.75, 0.625, 0.5, 0.375, 0.25, 0.125]
    # A warm-up that ends between two steps.
    rates = [learning_rate(step, total_steps=10, warmup_share=0.25, peak=1.0) for step in range(5)]
    assert rates == pytest.approx([1 / 2.5, 2 / 2.5, 1.0, 7 / 7.5, 6 / 7.5])
    assert learning_rate(3, total_steps=10, warmup_share=0.25, peak=1.0, falls=False) == 1.0


def test_only_matrices_that_are_no_embeddings_decay() -> None:
    network = tiny_network()
    optimizer = build_optimizer(network, weight_decay=0.3)
    names = {id(parameter): name for name, parameter in network.named_parameters()}
    decays = {
        names[id(parameter)]: group["weight_decay"]
        for group in optimizer.param_groups
        for parameter in group["params"]
    }
    assert decays.keys() == dict(network.named_parameters()).keys()
    decayed = {name for name, decay in decays.items() if decay == 0.3}
    assert decayed == {
        name
        for name, parameter in network.named_parameters()
        if parameter.ndim == 2 and not name.startswith("embeddings.")
    }
    assert {decays[name] for name in decays.keys() - decayed} == {0.0}


def test_the_mean_follows_quickly_at_first_and_slowly_later() -> None:
    mean = [torch.zeros(2)]
    weights = [nn.Parameter(torch.ones(2))]
    update_average(mean, weights, decay=0.99, step=0)
    assert mean[0].tolist() == pytest.approx([0.9, 0.9])  # 1 - 1 / 10
    update_average(mean, weights, decay=0.99, step=10**6)
    assert mean[0].tolist() == pytest.approx([0.901, 0.901])  # 0.9 + (1 - 0.99) * 0.1
    assert weights[0].tolist() == [1.0, 1.0]
