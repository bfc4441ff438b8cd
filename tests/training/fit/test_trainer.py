"""The loop by itself: what a step does, consistency, dropping tokens, averaging, stopping early."""

from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.nn import functional
from torch.optim import AdamW

from model.backends.eager import collate
from model.network.encoder import EncoderClassifier
from model.types import Batch
from tests.builders import tiny_config, tiny_network, tiny_tokenizer
from tests.training.tiny_runs import build_trainer
from training.device import Accelerator
from training.errors import DivergedRunError, RecipeError, ResumeError
from training.fit.objective import divergence
from training.fit.optimizer import learning_rate
from training.fit.recipe import Recipe
from training.fit.rows import EncodedRows, load_steps
from training.fit.trainer import Trainer
from training.measure.history import Measurement
from training.measure.inference import predict_logits
from training.measure.metrics import fit_temperature

CPU = torch.device("cpu")
GOOD = ["good film", "great cast", "a warm plot", "superb", "funny movie", "love it"]
BAD = ["bad film", "poor cast", "a cold plot", "boring", "dull movie", "weak"]
TRUTH = torch.tensor([1] * 6 + [0] * 6)
RECIPE = {"batch_size": 4, "epochs": 3, "learning_rate": 1e-2, "warmup_share": 0.0}


def still_network() -> EncoderClassifier:
    """One that drops no features, so that a step can be computed by hand."""
    config = tiny_config(hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0)
    return tiny_network(config)


def rows(*, perturbed: bool = False) -> EncodedRows:
    """A dozen texts of two classes, if asked each with a perturbed one."""
    encode, texts = tiny_tokenizer().encode, (*GOOD, *BAD)
    others = [encode(f"{text} film") for text in texts] if perturbed else None
    return EncodedRows([encode(text) for text in texts], TRUTH.tolist(), perturbed=others)


def make_trainer(
    folder: Path | None,
    network: EncoderClassifier,
    *,
    measure_training: bool = False,
    may_keep_start: bool = False,
    known: EncodedRows | None = None,
    **changes: object,
) -> Trainer:
    """A run over a dozen texts, which are also those that it is validated by."""
    return build_trainer(
        network,
        known or rows(),
        Recipe.model_validate({**RECIPE, **changes}),
        accelerator=Accelerator(CPU),
        state_dir=folder and folder / "state",
        measure_training=measure_training,
        may_keep_start=may_keep_start,
    )


def run(trainer: Trainer) -> list[Measurement]:
    return trainer.run(save_every=1000, stop=lambda: None, record=lambda _: None)


def logits(network: EncoderClassifier) -> Tensor:
    """Of the dozen texts, in float32."""
    encodings = rows().encodings
    return torch.from_numpy(predict_logits(network, encodings, pad_token_id=0, device=CPU))


def calibrated_loss(network: EncoderClassifier) -> float:
    """Of the dozen texts, at the best temperature."""
    found = logits(network).double()
    return float(
        functional.cross_entropy(found / fit_temperature(found.numpy(), TRUTH.numpy()), TRUTH)
    )


@pytest.mark.parametrize("schedule", ["linear", "constant"])
def test_the_rate_of_a_step_is_that_of_the_schedule(tmp_path: Path, schedule: str) -> None:
    history = run(make_trainer(tmp_path, still_network(), warmup_share=0.5, schedule=schedule))
    falls = schedule == "linear"
    assert [measurement.learning_rate for measurement in history] == [
        learning_rate(step, total_steps=9, warmup_share=0.5, peak=1e-2, falls=falls)
        for step in (2, 5, 8)
    ]


def test_the_penalty_pulls_the_embedding_and_is_not_recorded(tmp_path: Path) -> None:
    def trained(factor: float) -> tuple[float, float]:
        network = still_network()
        changes: dict[str, Any] = {"batch_size": 12, "embedding_l2": factor}
        first, *_ = run(make_trainer(tmp_path, network, **changes))
        return first.training_loss, float(network.embeddings.tokens.weight.detach().norm())

    loss, norm = trained(0.0)
    loss_with, norm_with = trained(10.0)
    assert loss_with == pytest.approx(loss, abs=1e-6)
    assert norm_with < norm


def test_training_rows_are_measured_like_validation_rows_if_asked(tmp_path: Path) -> None:
    network = tiny_network(tiny_config(hidden_dropout_prob=0.5))
    for each in run(make_trainer(tmp_path, network, measure_training=True, label_smoothing=0.3)):
        assert each.training_loss == each.validation_loss
        assert each.training_accuracy == each.validation_accuracy


@pytest.mark.parametrize("keep", ["last", "end"])
def test_the_last_weights_are_kept_if_asked(tmp_path: Path, keep: str) -> None:
    """At such a rate the last epoch is not the best, and patience would end the run."""
    changes: dict[str, Any] = {"epochs": 6, "patience": 1, "learning_rate": 0.5}
    network = still_network()
    history = run(make_trainer(tmp_path, network, keep=keep, schedule="constant", **changes))
    assert len(history) == 6
    least = min(measurement.validation_loss for measurement in history)
    last = history[-1].validation_loss
    assert least < last
    assert last == pytest.approx(calibrated_loss(network), abs=1e-6)


def test_a_run_without_a_state_leaves_none_and_cannot_go_on(tmp_path: Path) -> None:
    without = make_trainer(None, still_network())
    assert len(without.run(save_every=1, stop=lambda: None, record=lambda _: None)) == 3
    assert not list(tmp_path.iterdir())
    with pytest.raises(ResumeError, match="no state of this run is kept"):
        without.resume()


@pytest.mark.parametrize("smoothing", [0.0, 0.2])
def test_the_loss_of_training_has_smoothed_targets(tmp_path: Path, smoothing: float) -> None:
    network = still_network()
    chances = logits(network).double().log_softmax(dim=1)
    right = chances[torch.arange(12), TRUTH]
    expected = -((1 - smoothing) * right + smoothing * chances.mean(dim=1)).mean()
    (measured,) = run(
        make_trainer(tmp_path, network, epochs=1, batch_size=12, label_smoothing=smoothing)
    )
    assert measured.training_loss == pytest.approx(float(expected), abs=1e-6)
    hits = (chances.argmax(dim=1) == TRUTH).double().mean()
    assert measured.training_accuracy == float(hits)


def test_gradients_are_scaled_down_to_the_norm(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(AdamW, "zero_grad", lambda *_, **__: None)  # at the end too

    def norm(max_grad_norm: float) -> float:
        network = still_network()
        run(make_trainer(tmp_path, network, epochs=1, batch_size=12, max_grad_norm=max_grad_norm))
        gradients = [parameter.grad for parameter in network.parameters()]
        return float(torch.stack([g.norm() for g in gradients if g is not None]).norm())

    untouched = norm(1e9)
    assert untouched > 0.01
    assert norm(0.0) == untouched
    assert norm(0.01) == pytest.approx(0.01, rel=1e-3)
    assert norm(2 * untouched) == untouched


def test_the_mean_of_the_weights_is_kept(tmp_path: Path) -> None:
    before = still_network()
    last, mean = still_network(), still_network()
    run(make_trainer(tmp_path, last, epochs=1, batch_size=12))
    (measured,) = run(make_trainer(tmp_path, mean, epochs=1, batch_size=12, average_decay=0.999))
    for name, tensor in mean.state_dict().items():
        # After one step the mean has nine tenths of the new weights in it.
        expected = before.state_dict()[name].lerp(last.state_dict()[name], 0.9)
        torch.testing.assert_close(tensor, expected)
    assert not torch.equal(mean.pooler.weight, last.pooler.weight)
    assert measured.validation_loss == pytest.approx(calibrated_loss(mean), abs=1e-6)


@pytest.mark.parametrize("average_decay", [0.0, 0.5])
def test_the_best_epoch_is_kept_and_patience_ends_the_run(
    tmp_path: Path, average_decay: float
) -> None:
    """So high a rate ruins what the first epochs learnt."""
    network = still_network()
    changes: dict[str, Any] = {"epochs": 40, "patience": 2, "warmup_share": 0.5}
    trainer = make_trainer(
        tmp_path, network, average_decay=average_decay, learning_rate=0.5, **changes
    )
    history = run(trainer)
    losses = [measurement.validation_loss for measurement in history]
    best = losses.index(min(losses))
    assert trainer.state.best_epoch == best + 1 == len(history) - 2 < 38
    assert losses[-1] > losses[best]
    marked = [min(losses[:number], default=1e9) > loss for number, loss in enumerate(losses)]
    assert [measurement.is_best for measurement in history] == marked
    assert calibrated_loss(network) == pytest.approx(losses[best], abs=1e-6)


def test_the_start_is_kept_if_no_epoch_is_better(tmp_path: Path) -> None:
    network = still_network()
    run(make_trainer(tmp_path, network, epochs=10))
    before = logits(network)
    trainer = make_trainer(tmp_path, network, learning_rate=5.0, may_keep_start=True)
    history = run(trainer)
    assert trainer.state.best_epoch == 0
    assert trainer.state.start is not None
    assert trainer.state.start.loss < min(each.validation_loss for each in history)
    assert not any(each.is_best for each in history)
    assert torch.equal(logits(network), before)


def test_the_last_epoch_is_kept_within_the_noise_of_the_start(tmp_path: Path) -> None:
    """At so low a rate nothing changes."""
    trainer = make_trainer(
        tmp_path, still_network(), learning_rate=1e-9, may_keep_start=True, keep="end"
    )
    run(trainer)
    assert trainer.state.best_epoch == 3


def test_held_layers_keep_their_weights(tmp_path: Path) -> None:
    network = still_network()
    before = {name: each.clone() for name, each in network.state_dict().items()}
    run(make_trainer(tmp_path, network, held_layers=1))
    moved = {name for name, each in network.state_dict().items() if not each.equal(before[name])}
    held = {name for name in before if name.startswith(("embeddings.", "layers.0."))}
    assert moved == before.keys() - held


def test_some_tokens_are_dropped_others_stay(tmp_path: Path) -> None:
    def read(token_dropout: float) -> Tensor:
        network = still_network()
        seen: list[tuple[bool, Batch]] = []
        network.register_forward_pre_hook(
            lambda module, inputs: seen.append((module.training, inputs[0]))
        )
        changes: dict[str, Any] = {"epochs": 10, "patience": 10, "learning_rate": 1e-9}
        run(make_trainer(tmp_path, network, batch_size=12, token_dropout=token_dropout, **changes))
        return torch.cat([batch.input_ids.flatten() for training, batch in seen if training])

    dropped, whole = read(0.3), read(0.0)
    unknown = tiny_tokenizer().token_id("[UNK]")
    assert unknown not in whole.tolist()
    words = whole > 4
    assert torch.equal(dropped[~words], whole[~words])
    changed = dropped[words] != whole[words]
    assert set(dropped[words][changed].tolist()) == {unknown}
    assert 0.2 < float(changed.double().mean()) < 0.4


def test_no_state_is_saved_after_a_loss_that_is_no_number(tmp_path: Path) -> None:
    """Nobody else looks at the loss by then: no line of progress is due."""
    network = still_network()
    changes: dict[str, Any] = {"learning_rate": 1e30, "max_grad_norm": 0.0}
    trainer = make_trainer(tmp_path, network, **changes)
    with pytest.raises(DivergedRunError, match="the loss is nan after 1 steps: "):
        trainer.run(save_every=2, stop=lambda: None, record=lambda _: None)
    assert trainer.step == 2
    assert not list(tmp_path.iterdir())


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
    known = rows(perturbed=True)
    assert known.perturbed is not None
    network, same = still_network(), still_network()
    trainer = make_trainer(
        None, network, known=known, consistency=0.5, batch_size=12, max_grad_norm=0.0
    )
    (step,) = load_steps(known, [range(12)], pad_token_id=0, accelerator=Accelerator(CPU))

    trainer.training_step(step)

    same.train()
    logits, perturbed = (
        same(collate(list(texts), pad_token_id=0, device=CPU)).logits
        for texts in (known.encodings, known.perturbed)
    )
    loss = functional.cross_entropy(logits, TRUTH) + 0.5 * divergence(logits, perturbed)
    torch.autograd.backward(loss)
    gradients = dict(same.named_parameters())
    for name, parameter in network.named_parameters():
        expected = gradients[name].grad
        assert parameter.grad is not None
        assert expected is not None
        torch.testing.assert_close(parameter.grad, expected, msg=name)


def test_without_perturbed_texts_there_is_nothing_to_hold_to() -> None:
    with pytest.raises(RecipeError, match="consistency: no perturbed texts are made here"):
        make_trainer(None, still_network(), consistency=0.5)
