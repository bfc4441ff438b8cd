"""Trains the networks of a plan, and keeps their states and weights in the folder of the run.

So an interrupted plan resumes in the stage that it was in.
"""

import json
from collections.abc import Sequence
from pathlib import Path

import safetensors.torch
import torch
from torch import Tensor, nn

from model.cli.progress import say
from model.files import digest, sync, write_whole
from model.tokenization.tokenizer import Tokenizer
from training.errors import DivergedRunError, ResumeError
from training.fit.recipe import Recipe
from training.fit.rows import encode_rows
from training.fit.state import has_state, remove_state
from training.fit.trainer import Trainer
from training.measure.history import Measurement, write_history
from training.measure.plots import plot_history
from training.plan.pool import SoftDataset
from training.run import TrainingContext
from training.synth.augment import perturb_all


class StageRunner:
    """Trains one network after the other, and measures each epoch on the validation texts."""

    def __init__(
        self, context: TrainingContext, validation: tuple[Sequence[str], Sequence[int]]
    ) -> None:
        self._context = context
        self._validation = validation

    def load(self, name: str, fingerprint: str) -> dict[str, Tensor] | None:
        """Loads the weights of a finished stage; None if they are missing, damaged or outdated."""
        ranks = self._context.ranks
        weights = self._read(name, fingerprint) if ranks.is_first else None
        if not ranks.share_object(weights is not None):
            return None
        return ranks.share_tensors(weights)

    def _read(self, name: str, fingerprint: str) -> dict[str, Tensor] | None:
        path = self._weights(name)
        note = path.with_suffix(".json")
        if not (path.is_file() and note.is_file()):
            return None
        try:
            content = json.loads(note.read_text(encoding="utf-8"))
        except (ValueError, RecursionError):
            return None
        if content != {"fingerprint": fingerprint, "sha256": digest(path)}:
            return None
        remove_state(self._state(name))  # the run may have been killed between the two
        return safetensors.torch.load_file(path)

    def fit(
        self,
        name: str,
        network: nn.Module,
        tokenizer: Tokenizer,
        recipe: Recipe,
        rows: SoftDataset,
        fingerprint: str,
    ) -> dict[str, Tensor]:
        """Trains a network, or resumes it, and keeps and returns its weights, on the CPU."""
        texts, label_ids = self._validation
        state, ranks = self._state(name), self._context.ranks
        trainer = Trainer(
            network,
            tokenizer,
            recipe,
            training=encode_rows(
                tokenizer,
                rows.texts,
                rows.targets.argmax(axis=1).tolist(),
                rows.targets,
                perturbed=perturb_all(rows.texts, seed=recipe.seed) if recipe.consistency else None,
            ),
            validation=encode_rows(tokenizer, texts, label_ids),
            accelerator=self._context.accelerator,
            state_dir=state,
            fingerprint={"fingerprint": fingerprint},
            label=name,
            ranks=ranks,
        )
        if ranks.share_object(has_state(state)):
            self._resume(trainer, name)

        def record(history: Sequence[Measurement]) -> None:
            if ranks.is_first:
                write_history(history, self._context.run_dir / f"{name}.jsonl")

        try:
            history = trainer.run(
                save_every=self._context.save_every, stop=self._context.stop, record=record
            )
        except DivergedRunError:
            if ranks.is_first:
                remove_state(state)  # a resumed run would diverge again
            raise
        if ranks.is_first:
            plot_history(history, self._context.run_dir / f"{name}.png")
        last = history[-1]
        say(
            f"{name}: {len(rows.texts):,} texts, validation accuracy "
            f"{last.validation_accuracy:.2%}, {last.seconds:.0f} s"
        )
        weights = {
            key: value.cpu().clone(memory_format=torch.contiguous_format)
            for key, value in network.state_dict().items()
        }
        if ranks.is_first:
            self._keep(name, weights, fingerprint)
        ranks.wait()
        return weights

    def _resume(self, trainer: Trainer, name: str) -> None:
        try:
            trainer.resume()
        except ResumeError:
            say(f"{name} starts again: its state is damaged or of another plan or data")
            if self._context.ranks.is_first:
                remove_state(self._state(name))
        else:
            say(f"resuming {name} after step {trainer.step}")

    def _state(self, name: str) -> Path:
        return self._context.run_dir / f"{name}-state"

    def _weights(self, name: str) -> Path:
        return self._context.run_dir / f"{name}.safetensors"

    def _keep(self, name: str, weights: dict[str, Tensor], fingerprint: str) -> None:
        """Writes the weights, and only then removes the state that they came from."""
        path = self._weights(name)
        write_whole(path, safetensors.torch.save(weights))
        note = json.dumps({"fingerprint": fingerprint, "sha256": digest(path)})
        write_whole(path.with_suffix(".json"), note.encode())
        sync(path.parent)
        remove_state(self._state(name))
