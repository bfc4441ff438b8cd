"""Trains a network on encoded rows, up to its best weights and the history of the run.

Every step draws its randomness from a generator that is seeded by run and step, and the order of
an epoch follows from seed and epoch. So a run that was killed and resumed from its last state ends
in the same weights as one that never stopped.
"""

import copy
import math
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from model.cli.progress import Advance, progress
from model.cli.signals import Interruption
from model.network.encoder import EncoderClassifier
from model.tokenization.tokenizer import Tokenizer
from model.types import Batch
from training.data.batches import make_batches
from training.device import Accelerator, attention_kernel
from training.distributed import SINGLE_PROCESS, Ranks
from training.errors import RecipeError, ResumeError
from training.fit.checkpointing import write_state
from training.fit.dropout import RowSlice, TokenDropout, draw_for_slice, use_byte_dropout
from training.fit.gradient_sync import GradientSync
from training.fit.objective import batch_loss, class_weights, divergence, weight_penalty
from training.fit.optimizer import build_optimizer, learning_rate, update_average
from training.fit.recipe import Recipe
from training.fit.rows import EncodedRows, Step, StepShare, TrainingBatch, load_steps, measure_rows
from training.fit.state import TrainerState, clone, gather, load_together, restore
from training.fit.step_log import StepLog
from training.measure.history import LossAndAccuracy, Measurement

# More than the steps of any run, so that no two steps of two seeds share a generator.
_SEED_STRIDE = 1_000_003
_PASS_STRIDE = 2**45


class Trainer:
    """Trains one network.

    Without a `state_dir` no state is kept. `fingerprint` is what an interrupted run must share with
    this one. With `measure_training` the training rows are measured in evaluation mode after each
    epoch; otherwise the history holds the means over its steps, which cost nothing. With
    `may_keep_start` the weights before the first step are kept if no epoch is better.
    """

    def __init__(
        self,
        network: nn.Module,
        tokenizer: Tokenizer,
        recipe: Recipe,
        *,
        training: EncodedRows,
        validation: EncodedRows,
        accelerator: Accelerator,
        state_dir: Path | None,
        fingerprint: Mapping[str, Any],
        measure_training: bool = False,
        may_keep_start: bool = False,
        label: str = "fit",
        ranks: Ranks = SINGLE_PROCESS,
    ) -> None:
        if recipe.consistency and training.perturbed is None:
            raise RecipeError("consistency: no perturbed texts are made here: leave it out")
        use_byte_dropout(network)
        if recipe.held_layers is not None and isinstance(network, EncoderClassifier):
            for module in (network.embeddings, *list(network.layers)[: recipe.held_layers]):
                module.requires_grad_(requires_grad=False)
        self._network = network
        self._averaged = copy.deepcopy(network) if recipe.average_decay else network
        self._best = clone(self._averaged)
        self._optimizer = build_optimizer(
            network, weight_decay=recipe.weight_decay, beta2=recipe.beta2
        )
        self._recipe = recipe
        self._training = training
        self._validation = validation
        self._accelerator = accelerator
        self._state_dir = state_dir
        self._fingerprint = fingerprint
        self._measure_training = measure_training
        self._may_keep_start = may_keep_start
        self._label = label
        self._ranks = ranks
        self._share = StepShare(ranks.number, ranks.count, recipe.accumulate)
        # A single process exchanges nothing.
        self._sync = GradientSync(network, tokenizer, ranks) if ranks.count > 1 else None
        #: how far the run is: its history, its start and its best epoch
        self.state = TrainerState()
        #: why the state of the last step is not on disk; None if it is
        self.unsaved: str | None = None
        self._pad_token_id = tokenizer.pad_token_id
        self._class_weights = class_weights(training, recipe, accelerator)
        self._leave_out = training.leave_out
        self._drop_tokens = TokenDropout(tokenizer, recipe.token_dropout, accelerator)
        self._steps = StepLog(recipe.learning_rate)
        # Sorting gains nothing if all texts are padded to one length.
        is_fixed = recipe.conv_attention is not None
        self._lengths = [
            0 if is_fixed else len(encoding.input_ids) for encoding in training.encodings
        ]
        self._steps_per_epoch = len(
            make_batches(self._lengths, batch_size=recipe.batch_size, seed=recipe.seed, epoch=0)
        )
        #: optimizer steps of the whole run, unless it stops early
        self.total_steps = recipe.epochs * self._steps_per_epoch

    @property
    def step(self) -> int:
        """Optimizer steps done."""
        return self.state.step

    def interrupted(self) -> str:
        """Says where a signal interrupted the run, and how to go on."""
        state = f"the last state is not saved: {self.unsaved}"
        if self.unsaved is None:
            state = "the state is saved: run the same command with --resume to go on"
        steps = f"step {self.state.step} of {self.total_steps}"
        return f"interrupted after {steps}; {state}"

    def resume(self) -> None:
        """Loads the last state on disk; raises `ResumeError` if it does not fit."""
        if self._state_dir is None:
            raise ResumeError("no state of this run is kept: there is nothing to resume")
        self.state, tensors = load_together(self._state_dir, self._fingerprint, self._ranks)
        self._best = restore(tensors, self._network, self._averaged, self._optimizer)

    def observe(self, step: Callable[[int, float, float], None]) -> None:
        """Registers a function that gets each step when its loss is read from the device."""
        self._steps.observe = step

    def run(
        self,
        *,
        save_every: int,
        stop: Callable[[], int | None],
        record: Callable[[Sequence[Measurement]], None],
    ) -> list[Measurement]:
        """Trains until the epochs are over or the validation loss has stopped improving.

        `stop` is called after each step and epoch; the number of a signal ends the run. `record`
        gets the history after each epoch, and at once in a resumed run. A state is written every
        `save_every` steps and after each epoch. In the end the network holds the best weights.

        Raises:
            Interruption: `stop` said so; the state is on disk.
            DivergedRunError: a loss is not finite, found when losses are read from the device.
        """
        state = self.state
        if state.history:
            record(state.history)  # the run may have been killed between saving and recording
        if self._may_keep_start and not state.step:
            state.start = self._evaluate(self._validation)
        with progress(self.total_steps, self._label, done=state.step) as advance:
            while not self.is_over:
                self._run_epoch(save_every, stop, advance)
                record(state.history)
                self._raise_on(stop())
        self._network.load_state_dict(self._best)
        self._network.eval()
        # Who measures and saves now needs none of what was needed to train.
        self._optimizer.zero_grad()
        self._optimizer.state.clear()
        self._best = {}
        return state.history

    @property
    def is_over(self) -> bool:
        """Whether the epochs are done, or the validation loss has stopped improving."""
        epochs, recipe = len(self.state.history), self._recipe
        is_worse = recipe.keep == "best" and epochs - self.state.best_epoch >= recipe.patience
        return epochs >= recipe.epochs or is_worse

    def _run_epoch(self, save_every: int, stop: Callable[[], int | None], advance: Advance) -> None:
        state, recipe = self.state, self._recipe
        epoch = len(state.history)
        batches = make_batches(
            self._lengths, batch_size=recipe.batch_size, seed=recipe.seed, epoch=epoch
        )
        self._network.train()
        started = time.perf_counter()
        for step in load_steps(
            self._training,
            batches[state.step - epoch * self._steps_per_epoch :],
            pad_token_id=self._pad_token_id,
            accelerator=self._accelerator,
            share=self._share,
        ):
            self.training_step(step)
            advance(1, self._describe)
            signal = stop()
            if signal is not None or state.step % save_every == 0:
                self._steps.read_into(state)
                state.seconds += time.perf_counter() - started
                self._save()
                started = time.perf_counter()
            self._raise_on(signal)
        self._steps.read_into(state)
        state.seconds += time.perf_counter() - started
        self._measure(epoch)
        self._save()

    def _raise_on(self, signal: int | None) -> None:
        if signal is not None:
            raise Interruption(signal, self.interrupted())

    def training_step(self, step: Step) -> None:
        """Runs one optimizer step without reading anything back from the device."""
        state, recipe = self.state, self._recipe
        rate = self._rate(state.step)
        for group in self._optimizer.param_groups:
            group["lr"] = rate
        self._optimizer.zero_grad(set_to_none=True)
        results = []
        for number, (part, batch) in enumerate(zip(step.parts, step.batches, strict=True)):
            is_last = number == len(step.batches) - 1
            # Gradients of the passes before the last one are exchanged with those of it.
            with self._sync.network.no_sync() if self._sync and not is_last else nullcontext():
                results.append(self._pass(part, batch, is_last=is_last))
        if self._sync is not None and step.token_ids is not None:
            self._sync.words(step.token_ids)
        if recipe.max_grad_norm:
            torch.nn.utils.clip_grad_norm_(self._network.parameters(), recipe.max_grad_norm)
        self._optimizer.step()
        if self._averaged is not self._network:
            update_average(
                self._averaged.parameters(),
                self._network.parameters(),
                decay=recipe.average_decay,
                step=state.step,
            )
        count = sum(part.count for part in step.parts)
        loss, correct = results[0]
        if not self._share.is_whole:
            losses, rights = zip(*results, strict=True)
            loss, correct = torch.stack(losses).sum() / max(count, 1), torch.stack(rights).sum()
        self._steps.add(count, loss, correct, rate)
        state.step += 1

    def _pass(
        self, part: RowSlice, batch: TrainingBatch, *, is_last: bool
    ) -> tuple[Tensor, Tensor]:
        """Adds gradients; returns the mean loss of a whole step, else the sum; and the hits."""
        recipe, is_whole = self._recipe, self._share.is_whole
        self._seed(part)
        on_cpu = self._accelerator.device.type == "cpu"
        drawn = nullcontext() if is_whole or not on_cpu else draw_for_slice(part)
        with drawn:
            logits = self._logits(batch.inputs)
            perturbed = None if batch.perturbed is None else self._logits(batch.perturbed)
        loss = batch_loss(
            logits, batch.targets, recipe, self._class_weights, leave_out=self._leave_out
        )
        correct = (logits.argmax(dim=-1) == batch.label_ids).sum()
        # Neither divergence nor penalty is part of the loss that is recorded.
        whole = loss
        if perturbed is not None:
            whole = loss + recipe.consistency * divergence(logits, perturbed)
        if is_whole:
            torch.autograd.backward(whole + weight_penalty(self._network, recipe))
            return loss, correct
        # Gradients of processes are averaged, but a step is the mean over its rows.
        part_of_step = whole * (part.count * self._ranks.count / part.total)
        penalty = weight_penalty(self._network, recipe) if is_last else 0.0
        torch.autograd.backward(part_of_step + penalty)
        return loss.detach() * part.count, correct * bool(part.count)

    def _logits(self, inputs: Batch) -> Tensor:
        """Returns the logits of texts in training, float32 [B, C]."""
        kernel = attention_kernel(inputs.input_ids.shape[1], self._accelerator.device)
        network = self._network if self._sync is None else self._sync.network
        inputs = self._drop_tokens(inputs)
        with kernel, self._accelerator.autocast():
            logits: Tensor = network(inputs).logits
        return logits

    def _seed(self, part: RowSlice) -> None:
        """Seeds what a pass draws. On a GPU each pass draws only for its own rows."""
        seed = self._recipe.seed * _SEED_STRIDE + self.state.step
        if self._accelerator.device.type != "cpu":
            seed += part.first * _PASS_STRIDE
        torch.manual_seed(seed)

    def _describe(self) -> str:
        """Describes the epoch so far, for the progress."""
        state = self.state
        self._steps.read_into(state)
        epoch = f"epoch {len(state.history) + 1}/{self._recipe.epochs}"
        return f"{epoch}, loss {state.loss_sum / max(state.seen, 1):.4f}"

    def _rate(self, step: int) -> float:
        return learning_rate(
            step,
            total_steps=self.total_steps,
            warmup_share=self._recipe.warmup_share,
            peak=self._recipe.learning_rate,
            falls=self._recipe.schedule == "linear",
        )

    def _measure(self, epoch: int) -> None:
        state = self.state
        validation = self._evaluate(self._validation)
        loss_sum, correct, seen = self._sums()
        training = LossAndAccuracy(loss_sum / seen, correct / seen)
        if self._measure_training:
            training = self._evaluate(self._training)
        losses = [past.validation_loss for past in state.history]
        if state.start is not None:
            losses.append(state.start.loss)
        measurement = Measurement(
            step=state.step,
            epoch=epoch + 1,
            training_loss=training.loss,
            training_accuracy=training.accuracy,
            validation_loss=self._steps.check_finite(validation.loss, state.step),
            validation_accuracy=validation.accuracy,
            learning_rate=self._rate(state.step - 1),
            seconds=round(state.seconds, 3),
            is_best=validation.loss < min(losses, default=math.inf),
        )
        is_kept = measurement.is_best or self._recipe.keep == "last"
        if self._recipe.keep in ("end", "start"):
            noise = len(self._validation.encodings) ** -0.5  # nats, of the mean of so many rows
            noise = noise if self._recipe.keep == "end" else -noise
            least = math.inf if state.start is None else state.start.loss + noise
            is_kept = epoch + 1 == self._recipe.epochs and validation.loss < least
        if is_kept:
            state.best_epoch = epoch + 1
            self._best = clone(self._averaged)
        state.history.append(measurement)
        state.loss_sum, state.correct, state.seen = 0.0, 0, 0

    def _evaluate(self, rows: EncodedRows) -> LossAndAccuracy:
        return measure_rows(
            self._averaged,
            rows,
            pad_token_id=self._pad_token_id,
            accelerator=self._accelerator,
            ranks=self._ranks,
        )

    def _sums(self) -> tuple[float, int, int]:
        """Returns the loss, the right rows and the rows of the epoch, of all processes."""
        state = self.state
        if self._ranks.count == 1:
            return state.loss_sum, state.correct, state.seen
        loss, correct, seen = self._ranks.sum(
            np.array([state.loss_sum, state.correct, state.seen])
        ).tolist()
        return loss, round(correct), round(seen)

    def _save(self) -> None:
        if self._state_dir is None:
            return
        loss_sum, correct, seen = self._sums()
        if not self._ranks.is_first:
            return
        position = replace(self.state, loss_sum=loss_sum, correct=correct, seen=seen)
        tensors = gather(self._network, self._averaged, self._best, self._optimizer)
        self.unsaved = write_state(self._state_dir, position, tensors, self._fingerprint)
