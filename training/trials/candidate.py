"""Trains one network for its figures alone: of it nothing is kept but what was measured."""

import shutil
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import torch

from training.data.dataset import Dataset
from training.device import Accelerator
from training.errors import DivergedRunError
from training.fit.export import measure_network
from training.fit.initial import InitialModel, begin, describe_origin
from training.fit.recipe import Recipe
from training.fit.rows import encode_rows
from training.fit.run_fingerprint import identity_of
from training.fit.space import check_state_space, demand_of
from training.fit.state import has_state
from training.fit.trainer import Trainer
from training.measure.history import Measurement
from training.measure.metrics import Figures
from training.synth.augment import disturb_all, undo_penn_in_share
from training.tracking.opening import opened_logs
from training.tracking.parameters import parameters_of
from training.tracking.run_log import CombinedLogger, final_values
from training.tracking.targets import Target

_STATE = "state"


@dataclass(frozen=True, slots=True)
class TrainingContext:
    """What all networks of a command share.

    Args:
        accelerator: where they compute.
        init_from: the folder that they begin with; None: random weights.
        save_every: steps between two states on disk.
        stop: asked after each step; the number of a signal interrupts the run.
        name: of the command's output, which begins the names of its runs in trackers.
        targets: where the runs are logged to.
    """

    accelerator: Accelerator
    init_from: Path | None
    save_every: int
    stop: Callable[[], int | None]
    name: str
    targets: Sequence[Target] = ()

    @property
    def origin(self) -> dict[str, str]:
        """Name and digest of the pretrained weights, if any."""
        return {} if self.init_from is None else describe_origin(self.init_from)


@dataclass(frozen=True, slots=True)
class Candidate:
    """What was measured of a network.

    Args:
        epoch: whose weights were measured.
        epochs: that were trained.
        loss: validation loss of that epoch, in nats, without a temperature.
        seconds: of training.
        figures: of every set that was measured, by name; `validation` is one of them.
    """

    epoch: int
    epochs: int
    loss: float
    seconds: float
    figures: Mapping[str, Figures]


def train_candidate(
    recipe: Recipe,
    training: Dataset,
    validation: Dataset,
    measured: Mapping[str, Dataset],
    *,
    folder: Path,
    label: str,
    bench: TrainingContext,
) -> Candidate:
    """Trains a network, or goes on where its run was interrupted, and measures it.

    Args:
        recipe: of the run.
        training: rows to learn from.
        validation: rows that choose the epoch and the temperature.
        measured: other rows, which choose nothing, by the names of their sets.
        folder: of the run; its state is there if it was interrupted, and until the caller, which
            has written down the figures, removes it.
        label: names the run in its progress and in trackers.
        bench: what it shares with others.

    Raises:
        InterruptedRunError: a signal came; the state is in the folder.
        DivergedRunError: the loss is no longer a number.
        TrainingError: rows, recipe or a state do not fit.
    """
    texts = undo_penn_in_share(training.texts, share=recipe.undo_penn_share, seed=recipe.seed)
    training = replace(training, texts=texts)
    start = begin(recipe, bench.init_from, training)
    trainer = Trainer(
        start.network.to(bench.accelerator.device),
        start.tokenizer,
        recipe,
        training=encode_rows(
            start.tokenizer,
            training,
            disturb_all(training.texts, seed=recipe.seed) if recipe.consistency else None,
        ),
        validation=encode_rows(start.tokenizer, validation),
        accelerator=bench.accelerator,
        state_dir=folder / _STATE,
        identity=identity_of(
            recipe,
            start.origin,
            bench.accelerator,
            {"training": training, "validation": validation},
        ),
        label=label,
    )
    if has_state(folder / _STATE):
        trainer.resume()
    _check_space(start, recipe, folder, trainer)
    with opened_logs(
        bench.targets, f"{bench.name}/{label}", folder=folder, first_step=trainer.step
    ) as log:
        log.begin(parameters_of(recipe, start.origin, training, validation))
        trainer.observe(log.step)
        history = _run(trainer, log, folder, bench)
        temperature, figures = measure_network(
            start, validation, measured, device=bench.accelerator.device
        )
        log.end(final_values(figures, temperature), step=trainer.step)
    best = min(history, key=lambda measurement: measurement.validation_loss)
    kept = best if recipe.keep == "best" else history[-1]
    return Candidate(kept.epoch, len(history), kept.validation_loss, history[-1].seconds, figures)


def _check_space(start: InitialModel, recipe: Recipe, folder: Path, trainer: Trainer) -> None:
    demand = demand_of(
        start.network,
        start.tokenizer,
        dtype=torch.float32,
        has_average=recipe.average_decay > 0.0,
        state_dir=folder / _STATE,
        is_over=trainer.is_over,
    )
    check_state_space(demand, folder, advice="make room, or choose a folder on another disk")


def _run(
    trainer: Trainer, log: CombinedLogger, folder: Path, bench: TrainingContext
) -> list[Measurement]:
    told = 0

    def record(history: Sequence[Measurement]) -> None:
        nonlocal told
        for measurement in history[told:]:
            log.epoch(measurement)
        told = len(history)

    try:
        return trainer.run(save_every=bench.save_every, stop=bench.stop, record=record)
    except DivergedRunError:
        shutil.rmtree(folder, ignore_errors=True)  # a resumed run would diverge again
        raise
