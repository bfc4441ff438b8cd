"""Runs `headlight-train fit` on labelled files: trains a checkpoint and records its history."""

import argparse
import hashlib
import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch

from model.files import WEIGHTS
from model.hub_checkpoint import local_folder
from model.progress import say
from training.cli import fit_report, plan
from training.cli.fit_options import STORE_DTYPES, place_run, recipe_of
from training.cli.shared_options import columns_of
from training.data.dataset import Dataset
from training.data.hub import local_files
from training.data.splits import read_and_split, read_evaluated
from training.errors import DivergedRunError, NoSpaceError, RecipeError, ResumeError
from training.fit.export import Exported, write_checkpoint
from training.fit.initial import InitialModel, init_from_pretrained, init_from_scratch
from training.fit.keeping import FULL, tell_unwritten, where_to_go_on
from training.fit.recipe import Recipe
from training.fit.rows import encode_rows
from training.fit.space import Demand, check_space, demand_of
from training.fit.state import THREADS, has_state, past_of_state, remove_state
from training.fit.trainer import Trainer
from training.machine import Accelerator, choose_accelerator
from training.measure.history import Measurement, write_history
from training.measure.plots import plot_history
from training.measure.summary import epoch_line
from training.ranks import Ranks, current
from training.signals import noted_signals, raised_signals
from training.synth.augment import disturb_all, undo_penn_in_share

_HISTORY, _PLOT, _STATE = "history.jsonl", "history.png", "state"


def run(arguments: argparse.Namespace) -> int:
    """Trains, calibrates, measures and saves a checkpoint.

    Raises:
        TrainingError: data, options or an interrupted run cannot be used; or the run was
            interrupted.
        model.errors.ModelError: a folder or the device cannot be used.
    """
    if arguments.plan is not None:
        return plan.run(arguments)
    if not arguments.files:
        raise RecipeError("name at least one FILE to learn from, or a --plan")
    unused = [f"--{name}" for name in ("data", "teacher") if getattr(arguments, name) is not None]
    if unused:
        raise RecipeError(f"{unused[0]} is for a --plan: leave it out, or give one")
    ranks = current()
    recipe = recipe_of(arguments)
    arguments.overwrite = arguments.overwrite or arguments.extend is not None
    run_dir = place_run(arguments)
    if ranks.restarts and ranks.is_first:
        arguments.resume = has_state(run_dir / _STATE)  # a process was lost: nobody types --resume
    if ranks.is_first:
        _check_state(arguments, run_dir / _STATE)
    arguments.resume = ranks.share_object(arguments.resume)
    recipe, then = _lengthened(arguments, recipe, run_dir / _STATE, ranks)
    _fetch(arguments)
    accelerator = choose_accelerator(
        arguments.device, threads=arguments.threads, dtype=arguments.dtype, ranks=ranks
    )
    training, validation = _read(arguments, recipe)
    evaluated = read_evaluated(
        arguments.evaluate, columns=columns_of(arguments), labels=training.labels
    )
    start = (
        init_from_pretrained(recipe, arguments.init_from, training.labels)
        if arguments.init_from
        else init_from_scratch(recipe, training.texts, training.labels)
    )
    trainer = Trainer(
        start.network.to(accelerator.device),
        start.tokenizer,
        recipe,
        training=encode_rows(
            start.tokenizer,
            training,
            disturb_all(training.texts, seed=recipe.seed) if recipe.consistency else None,
        ),
        validation=encode_rows(start.tokenizer, validation),
        accelerator=accelerator,
        state_dir=run_dir / _STATE,
        identity=_identity(recipe, training, validation, start, accelerator),
        ranks=ranks,
    )
    if arguments.resume:
        trainer.resume(_identity(then, training, validation, start, accelerator))
        say(f"resuming after step {trainer.step}")
    demand = demand_of(
        start.network,
        start.tokenizer,
        dtype=STORE_DTYPES[arguments.store_dtype],
        has_average=recipe.average_decay > 0.0,
        state_dir=run_dir / _STATE,
        is_over=trainer.is_over,
    )
    if ranks.is_first:
        check_space(demand, run_dir=run_dir, output=arguments.output)
    ranks.wait()
    fit_report.say_beginning(
        arguments, recipe, trainer, training=training, validation=validation, evaluated=evaluated
    )
    history = _fit(trainer, recipe, run_dir, save_every=arguments.save_every, ranks=ranks)
    if not ranks.is_first:
        return 0
    with raised_signals(trainer.interrupted):
        exported = _write(
            arguments,
            start,
            recipe,
            trainer,
            demand,
            data=(training, validation, evaluated),
            state_dir=run_dir / _STATE,
            device=accelerator.device,
        )
        if not arguments.keep_state:
            remove_state(run_dir / _STATE)
    fit_report.unless_unwritten(lambda: plot_history(history, run_dir / _PLOT), run_dir / _PLOT)
    fit_report.say_end(recipe, history, exported, training=training, validation=validation)
    say(f"checkpoint: {arguments.output}")
    return 0


def _check_state(arguments: argparse.Namespace, state: Path) -> None:
    """Refuses to discard an interrupted run without `--overwrite`, before any work is done."""
    if arguments.resume and not has_state(state):
        raise ResumeError(f"{state}: there is no interrupted run to go on with; leave out --resume")
    if has_state(state) and not (arguments.resume or arguments.overwrite):
        raise RecipeError(
            f"{state} holds the state of a run: go on with it with --resume, or with --extend if "
            "it has ended, or give it up with --overwrite"
        )


def _lengthened(
    arguments: argparse.Namespace, recipe: Recipe, state: Path, ranks: Ranks
) -> tuple[Recipe, Recipe]:
    """Adds epochs to a finished run, or finds out that an interrupted run has such epochs.

    Returns:
        The recipe of this run, and that of the run that left the state.

    Raises:
        ResumeError: there is no state of a finished run.
    """
    if not arguments.resume and arguments.extend is None:
        return recipe, recipe
    past = past_of_state(state) if ranks.is_first else None
    if ranks.is_first and past is None and arguments.extend is not None:
        raise ResumeError(
            f"{state}: no state of a run is kept there: fit with --keep-state first, or begin with "
            "the weights alone by --init-from"
        )
    known: Any = ranks.share_object(past) or ({}, 0, 0)
    identity, done, best = known
    epochs, restarts = identity.get("epochs", recipe.epochs), identity.get("restarts", [])
    then = recipe
    if restarts or arguments.extend is not None:
        then = recipe.model_copy(update={"epochs": epochs, "restarts": tuple(restarts)})
    since = max(best, *(each for each in restarts if each <= done), 0)
    is_over = done >= epochs or done - since >= recipe.patience
    if arguments.extend is None or (arguments.resume and not is_over):
        return then, then
    if not is_over:
        raise ResumeError(
            f"{state}: the run has finished {done} of {epochs} epochs: go on with it with --resume "
            "before you add more"
        )
    arguments.resume = True
    longer = {"epochs": done + arguments.extend, "restarts": (*restarts, done)}
    return then.model_copy(update=longer), then


def _fetch(arguments: argparse.Namespace) -> None:
    """Replaces names of the hub by the files and the folder that they stand for."""
    arguments.files = local_files(arguments.files)
    arguments.validation = local_files(arguments.validation or ())
    arguments.evaluate = local_files(arguments.evaluate)
    if arguments.init_from is not None:
        arguments.init_from = local_folder(arguments.init_from)


def _read(arguments: argparse.Namespace, recipe: Recipe) -> tuple[Dataset, Dataset]:
    """Reads training rows, rewrites some of the Penn style, and reads validation rows."""
    training, validation = read_and_split(
        arguments.files,
        arguments.validation,
        columns=columns_of(arguments),
        labels=arguments.labels,
        hold_out=recipe.hold_out,
        share=recipe.validation_share,
        seed=recipe.seed,
    )
    texts = undo_penn_in_share(training.texts, share=recipe.undo_penn_share, seed=recipe.seed)
    return replace(training, texts=texts), validation


def _identity(
    recipe: Recipe,
    training: Dataset,
    validation: Dataset,
    start: InitialModel,
    accelerator: Accelerator,
) -> dict[str, Any]:
    """Collects what a resumed run must share with this one to end in the same weights."""
    return {
        **recipe.model_dump(mode="json"),
        **start.origin,
        "device": accelerator.device.type,
        "bfloat16": accelerator.bfloat16,
        # The sums of several processes differ in their last digits, whatever their threads.
        THREADS: torch.get_num_threads() if current().count == 1 else None,
        "labels": list(training.labels),
        "training_data": [source.sha256 for source in training.sources],
        "validation_data": [source.sha256 for source in validation.sources],
        # The same files may have been read by other columns.
        "training_rows": _rows_digest(training),
        "validation_rows": _rows_digest(validation),
    }


def _rows_digest(dataset: Dataset) -> str:
    rows = json.dumps([dataset.texts, dataset.label_ids]).encode()
    return hashlib.sha256(rows).hexdigest()


def _fit(
    trainer: Trainer, recipe: Recipe, run_dir: Path, *, save_every: int, ranks: Ranks
) -> list[Measurement]:
    """Trains from the start, or from where the run was interrupted, and tells each epoch."""
    if ranks.is_first:
        run_dir.mkdir(parents=True, exist_ok=True)
        if not trainer.step:
            remove_state(run_dir / _STATE)
            for left in (_HISTORY, _PLOT):
                (run_dir / left).unlink(missing_ok=True)
    told = 0

    def record(history: Sequence[Measurement]) -> None:
        nonlocal told
        for count in range(told + 1, len(history) + 1):
            say(epoch_line(history[:count], epochs=recipe.epochs))
        told = len(history)
        path = run_dir / _HISTORY
        if ranks.is_first:
            fit_report.unless_unwritten(lambda: write_history(history, path), path)

    try:
        with noted_signals() as stop:
            return trainer.run(save_every=save_every, stop=ranks.agree(stop), record=record)
    except DivergedRunError:
        # A resumed run would diverge again.
        if ranks.is_first:
            remove_state(run_dir / _STATE)
        raise


def _write(
    arguments: argparse.Namespace,
    start: InitialModel,
    recipe: Recipe,
    trainer: Trainer,
    demand: Demand,
    *,
    data: tuple[Dataset, Dataset, dict[str, Dataset]],
    state_dir: Path,
    device: torch.device,
) -> Exported:
    """Writes the checkpoint; a full disk loses no state of the run."""
    training, validation, evaluated = data

    def write() -> Exported:
        return write_checkpoint(
            arguments.output,
            start,
            seed=recipe.seed,
            record=recipe.model_dump(mode="json"),
            training=training,
            validation=validation,
            evaluated=evaluated,
            device=device,
            dtype=STORE_DTYPES[arguments.store_dtype],
        )

    try:
        try:
            return write()
        except OSError as error:
            if error.errno not in FULL or trainer.unsaved is None:
                raise
            # The state on disk is an old one: it gives its room to the weights that are trained.
            remove_state(state_dir)
            return write()
    except OSError as error:
        fault = tell_unwritten(error, arguments.output / WEIGHTS, demand.checkpoint)
        rest = (
            "the trained weights are saved, and the same command with --resume only writes the "
            "checkpoint"
            if trainer.unsaved is None
            else f"nor is the last state saved: {where_to_go_on(state_dir)}"
        )
        raise NoSpaceError(f"the checkpoint: {fault}: make room; {rest}") from error
