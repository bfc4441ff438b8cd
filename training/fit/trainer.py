"""The loop: from a network and encoded rows to its best weights and the history of the run.

Every step draws its randomness from a generator seeded by run and step, and the order of an epoch
follows from seed and epoch: so a run that was killed and goes on from its last state ends in the
same weights as one that never stopped.
"""

import copy
import math
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from model.batch import Batch, collate
from model.tokenizer import Tokenizer
from training.data.batches import make_batches
from training.errors import DivergedRunError, InterruptedRunError, ResumeError
from training.fit.dropout import use_byte_dropout
from training.fit.kernels import attention_kernel
from training.fit.objective import batch_loss, weight_penalty
from training.fit.optimizer import build_optimizer, learning_rate, update_average
from training.fit.recipe import Recipe
from training.fit.rows import EvalResult, Rows, measure_rows
from training.fit.snapshot import clone, gather, restore
from training.fit.state import TrainerState, load_state, save_state
from training.measure.history import Measurement
from training.progress import progress

# More than the steps of any run, so that no two steps of two seeds share a generator.
_SEED_STRIDE = 1_000_003


class Trainer:
    """One run.

    Args:
        network: its weights drawn or loaded; on `device`.
        tokenizer: that the rows were encoded by.
        recipe: what to do.
        training: rows to learn from.
        validation: rows to choose the best epoch by.
        device: where the network runs.
        bfloat16: whether matrix products are computed in it.
        state: folder of the state; None: none is kept, and the run cannot go on.
        identity: what an interrupted run must share with this one.
        measure_training: whether the history tells how the network does on the training rows in
            evaluation mode, as on the validation rows. Otherwise it tells the means over the
            steps of the epoch, which cost nothing.
        label: names the run in its progress.
    """

    def __init__(
        self,
        network: nn.Module,
        tokenizer: Tokenizer,
        recipe: Recipe,
        *,
        training: Rows,
        validation: Rows,
        device: torch.device,
        bfloat16: bool,
        state: Path | None,
        identity: Mapping[str, Any],
        measure_training: bool = False,
        label: str = "fit",
    ) -> None:
        use_byte_dropout(network)
        self._network = network
        self._averaged = copy.deepcopy(network) if recipe.average_decay else network
        self._best = clone(self._averaged)
        self._optimizer = build_optimizer(
            network,
            weight_decay=recipe.weight_decay,
            beta2=recipe.beta2,
            layer_decay=recipe.layer_decay,
        )
        self._recipe = recipe
        self._training = training
        self._validation = validation
        self._device = device
        self._bfloat16 = bfloat16
        self._state = state
        self._identity = identity
        self._measure_training = measure_training
        self._label = label
        self._position = TrainerState()
        self._pad_token_id = tokenizer.pad_token_id
        self._unknown_id = tokenizer.token_id("[UNK]")
        specials = [tokenizer.token_id(token) for token in tokenizer.special_tokens().values()]
        self._special_ids = torch.tensor([number for number in specials if number is not None])
        # Nothing is gained by sorting texts that are padded to one length anyhow.
        is_fixed = recipe.conv_attention is not None
        self._lengths = [
            0 if is_fixed else len(encoding.input_ids) for encoding in training.encodings
        ]
        self._steps_per_epoch = len(
            make_batches(self._lengths, batch_size=recipe.batch_size, seed=recipe.seed, epoch=0)
        )
        self._total_steps = recipe.epochs * self._steps_per_epoch

    @property
    def step(self) -> int:
        """Optimizer steps done."""
        return self._position.step

    def interrupted(self, signal: int) -> InterruptedRunError:
        """What a signal makes of the run, its state being on disk.

        Args:
            signal: its number.
        """
        return InterruptedRunError(signal, self._position.step, self._total_steps)

    def resume(self) -> None:
        """Goes back to the last state on disk.

        Raises:
            ResumeError: there is none, it is damaged, or it is of another run.
        """
        if self._state is None:
            raise ResumeError("no state of this run is kept: there is nothing to go on with")
        self._position, tensors = load_state(self._state, self._identity)
        self._best = restore(tensors, self._network, self._averaged, self._optimizer)

    def run(
        self,
        *,
        save_every: int,
        stop: Callable[[], int | None],
        record: Callable[[Sequence[Measurement]], None],
    ) -> list[Measurement]:
        """Trains until the epochs are over or none has been better for a while.

        Args:
            save_every: steps between two states on disk; one is also written after each epoch.
            stop: asked after each step and each epoch; the number of a signal ends the run.
            record: given the history after each epoch, and first that of a resumed run.

        Returns:
            A measurement for each epoch. The network holds the best weights.

        Raises:
            InterruptedRunError: `stop` said so; the state is on disk.
            DivergedRunError: a loss is not a finite number.
        """
        position = self._position
        if position.history:
            record(position.history)  # a kill may have come between the state and its record
        with progress(self._total_steps, self._label, done=position.step) as advance:
            while not self._is_over():
                self._run_epoch(save_every, stop, advance)
                record(position.history)
                self._end_if(stop())
        self._network.load_state_dict(self._best)
        self._network.eval()
        return position.history

    def _is_over(self) -> bool:
        epochs = len(self._position.history)
        without_better = epochs - self._position.best_epoch
        return epochs >= self._recipe.epochs or without_better >= self._recipe.patience

    def _run_epoch(
        self, save_every: int, stop: Callable[[], int | None], advance: Callable[[int, str], None]
    ) -> None:
        position, recipe = self._position, self._recipe
        epoch = len(position.history)
        batches = make_batches(
            self._lengths, batch_size=recipe.batch_size, seed=recipe.seed, epoch=epoch
        )
        self._network.train()
        for batch in batches[position.step - epoch * self._steps_per_epoch :]:
            started = time.perf_counter()
            self._run_step(batch)
            position.seconds += time.perf_counter() - started
            mean = position.loss_sum / position.seen
            advance(1, f"epoch {epoch + 1}/{recipe.epochs}, loss {mean:.4f}")
            signal = stop()
            if signal is not None or position.step % save_every == 0:
                self._save()
            self._end_if(signal)
        self._measure(epoch)
        self._save()

    def _end_if(self, signal: int | None) -> None:
        if signal is not None:
            raise self.interrupted(signal)

    def _run_step(self, places: Sequence[int]) -> None:
        position, recipe = self._position, self._recipe
        torch.manual_seed(recipe.seed * _SEED_STRIDE + position.step)
        for group in self._optimizer.param_groups:
            group["lr"] = group["scale"] * self._rate(position.step)
        batch = self._collate(places)
        classes, target = self._targets(places)  # [B], [B] or [B, C]
        kernel = attention_kernel(batch.input_ids.shape[1], self._device)
        with kernel, self._autocast():
            logits = self._network(batch).logits  # [B, C]
        loss = batch_loss(logits, target, recipe)
        mean_loss = self._check_finite(float(loss.detach()))
        self._optimizer.zero_grad(set_to_none=True)
        # The penalty is no part of the loss that is recorded.
        torch.autograd.backward(loss + weight_penalty(self._network, recipe))
        if recipe.max_grad_norm:
            torch.nn.utils.clip_grad_norm_(self._network.parameters(), recipe.max_grad_norm)
        self._optimizer.step()
        if self._averaged is not self._network:
            update_average(
                self._averaged.parameters(),
                self._network.parameters(),
                decay=recipe.average_decay,
                step=position.step,
            )
        position.step += 1
        position.loss_sum += mean_loss * len(places)
        position.correct += int((logits.argmax(dim=-1) == classes).sum())
        position.seen += len(places)

    def _targets(self, places: Sequence[int]) -> tuple[Tensor, Tensor]:
        """The classes of some rows, and what is to be learnt of them."""
        rows = self._training
        classes = torch.tensor([rows.label_ids[place] for place in places]).to(self._device)
        if rows.targets is None:
            return classes, classes
        return classes, torch.from_numpy(rows.targets[list(places)]).to(self._device)

    def _rate(self, step: int) -> float:
        return learning_rate(
            step,
            total_steps=self._total_steps,
            warmup_share=self._recipe.warmup_share,
            peak=self._recipe.learning_rate,
            falls=self._recipe.schedule == "linear",
        )

    def _check_finite(self, loss: float) -> float:
        if not math.isfinite(loss):
            raise DivergedRunError(loss, self._position.step, self._recipe.learning_rate)
        return loss

    def _collate(self, places: Sequence[int]) -> Batch:
        encodings = [self._training.encodings[place] for place in places]
        batch = collate(encodings, pad_token_id=self._pad_token_id, device=self._device)
        share = self._recipe.token_dropout
        if not share or self._unknown_id is None:
            return batch
        drop = torch.rand(batch.input_ids.shape, device=self._device) < share  # [B, T]
        drop &= ~torch.isin(batch.input_ids, self._special_ids.to(self._device))
        return Batch(batch.input_ids.masked_fill(drop, self._unknown_id), batch.key_padding_mask)

    def _measure(self, epoch: int) -> None:
        position = self._position
        validation = self._evaluate(self._validation)
        training = EvalResult(position.loss_sum / position.seen, position.correct / position.seen)
        if self._measure_training:
            training = self._evaluate(self._training)
        measurement = Measurement(
            step=position.step,
            epoch=epoch + 1,
            training_loss=training.loss,
            training_accuracy=training.accuracy,
            validation_loss=self._check_finite(validation.loss),
            validation_accuracy=validation.accuracy,
            learning_rate=self._rate(position.step - 1),
            seconds=round(position.seconds, 3),
        )
        least = min((past.validation_loss for past in position.history), default=math.inf)
        if measurement.validation_loss < least or self._recipe.keep == "last":
            position.best_epoch = epoch + 1
            self._best = clone(self._averaged)
        position.history.append(measurement)
        position.loss_sum, position.correct, position.seen = 0.0, 0, 0

    def _evaluate(self, rows: Rows) -> EvalResult:
        return measure_rows(
            self._averaged,
            rows,
            pad_token_id=self._pad_token_id,
            device=self._device,
            bfloat16=self._bfloat16,
        )

    def _autocast(self) -> torch.autocast:
        return torch.autocast(self._device.type, torch.bfloat16, enabled=self._bfloat16)

    def _save(self) -> None:
        if self._state is None:
            return
        tensors = gather(self._network, self._averaged, self._best, self._optimizer)
        save_state(self._state, self._position, tensors, self._identity)
