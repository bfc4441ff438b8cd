"""Consistency training: answers on perturbed texts are held to those on the texts themselves."""

import pytest
import torch
from torch.nn import functional

from model.network.batch import collate
from tests.builders import tiny_tokenizer
from tests.training.fit.test_trainer import BAD, CPU, GOOD, RECIPE, TRUTH, still_network
from training.device import Accelerator
from training.errors import RecipeError
from training.fit.objective import divergence
from training.fit.recipe import Recipe
from training.fit.rows import EncodedRows, load_steps
from training.fit.trainer import Trainer

DISTURBED = [f"{text} film" for text in (*GOOD, *BAD)]


def perturbed_rows() -> EncodedRows:
    """A dozen texts, each with a perturbed one."""
    tokenizer = tiny_tokenizer()
    return EncodedRows(
        [tokenizer.encode(text) for text in (*GOOD, *BAD)],
        TRUTH.tolist(),
        perturbed=[tokenizer.encode(text) for text in DISTURBED],
    )


def make(network: torch.nn.Module, rows: EncodedRows, **changes: object) -> Trainer:
    return Trainer(
        network,
        tiny_tokenizer(),
        Recipe.model_validate({**RECIPE, "max_grad_norm": 0.0, "batch_size": 12, **changes}),
        training=rows,
        validation=rows,
        accelerator=Accelerator(CPU),
        state_dir=None,
        fingerprint={},
    )


def test_the_divergence_is_that_of_kullback_and_leibler() -> None:
    logits = torch.tensor([[0.0, 0.0], [1.0, 0.0]], requires_grad=True)
    perturbed = torch.tensor([[1.0, 0.0], [1.0, 0.0]], requires_grad=True)

    value = divergence(logits, perturbed)

    first, second = torch.tensor([1.0, 0.0]).softmax(0)
    expected = (0.5 * (0.5 / first).log() + 0.5 * (0.5 / second).log()) / 2
    assert float(value.detach()) == pytest.approx(float(expected))
    torch.autograd.backward(value)
    assert logits.grad is None
    assert perturbed.grad is not None
    assert bool((perturbed.grad[0] != 0.0).all())


def test_a_step_follows_the_loss_and_the_divergence() -> None:
    rows = perturbed_rows()
    assert rows.perturbed is not None
    network, same = still_network(), still_network()
    trainer = make(network, rows, consistency=0.5)
    (step,) = load_steps(rows, [range(12)], pad_token_id=0, accelerator=Accelerator(CPU))

    trainer.training_step(step)

    same.train()
    logits, perturbed = (
        same(collate(list(texts), pad_token_id=0, device=CPU)).logits
        for texts in (rows.encodings, rows.perturbed)
    )
    loss = functional.cross_entropy(logits, TRUTH) + 0.5 * divergence(logits, perturbed)
    torch.autograd.backward(loss)
    gradients = dict(same.named_parameters())
    for name, parameter in network.named_parameters():
        expected = gradients[name].grad
        assert parameter.grad is not None
        assert expected is not None
        torch.testing.assert_close(parameter.grad, expected, msg=name)


def test_without_disturbed_texts_there_is_nothing_to_hold_to() -> None:
    bare = EncodedRows(perturbed_rows().encodings, TRUTH.tolist())

    with pytest.raises(RecipeError, match="consistency: no perturbed texts are made here"):
        make(still_network(), bare, consistency=0.5)
