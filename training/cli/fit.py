"""Runs `headlight-train fit` on labelled files: trains a checkpoint and records its history."""

import argparse
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch

from model.checkpoint.hub_folder import local_folder
from model.cli.progress import say
from model.files import WEIGHTS
from training.cli import fit_report, folds, plan
from training.cli.fit_options import STORE_DTYPES, check_folds, check_one_run, place_run
from training.cli.fit_resume import check_left, is_left, lengthened
from training.cli.recipe_options import recipe_of
from training.cli.shared_options import columns_of
from training.data.dataset import Dataset, read_dataset
from training.data.hub import local_files
from training.data.splits import hold_out_rows, read_evaluated, read_training
from training.device import choose_accelerator
from training.distributed import Ranks, current
from training.errors import DivergedRunError, NoSpaceError
from training.fit.checkpointing import FULL, tell_unwritten, where_to_go_on
from training.fit.export import Exported, write_checkpoint
from training.fit.initial import InitialModel, begin
from training.fit.recipe import Recipe
from training.fit.rows import encode_rows
from training.fit.run_fingerprint import identity_of
from training.fit.space import Demand, check_space, demand_of
from training.fit.state import has_state, remove_state
from training.fit.trainer import Trainer
from training.measure.history import Measurement, write_history
from training.measure.plots import plot_history
from training.measure.summary import epoch_line
from training.signals import noted_signals, raised_signals
from training.synth.augment import disturb_all, undo_penn_in_share
from training.tracking.opening import check_installed, opened_logs
from training.tracking.parameters import parameters_of
from training.tracking.run_log import RunLog, final_values

_HISTORY, _PLOT, _STATE = "history.jsonl", "history.png", "state"


def run(arguments: argparse.Namespace) -> int:
    """Trains, calibrates, measures and saves a checkpoint.

    Raises:
        TrainingError: data, options or an interrupted run cannot be used; or the run was
            interrupted.
        model.errors.ModelError: a folder or the device cannot be used.
    """
    if arguments.plan is not None:
        check_folds(arguments, processes=1)
        return plan.run(arguments)
    ranks = current()
    check_one_run(arguments, processes=ranks.count)
    check_installed(arguments.log_to)
    recipe = recipe_of(arguments)
    arguments.overwrite = arguments.overwrite or arguments.extend is not None
    run_dir = place_run(arguments)
    if ranks.restarts and ranks.is_first:
        # A process was lost: nobody types --resume.
        arguments.resume = is_left(arguments, run_dir / _STATE)
    if ranks.is_first:
        check_left(arguments, run_dir / _STATE)
    arguments.resume = ranks.share_object(arguments.resume)
    recipe, then = lengthened(arguments, recipe, run_dir / _STATE, ranks)
    _fetch(arguments)
    accelerator = choose_accelerator(
        arguments.device, threads=arguments.threads, dtype=arguments.dtype, ranks=ranks
    )
    rows, training, validation = _read(arguments, recipe)
    evaluated = read_evaluated(
        arguments.evaluate, columns=columns_of(arguments), labels=training.labels
    )
    start = begin(recipe, arguments.init_from, training)

    def identity(decided: Recipe) -> dict[str, Any]:
        datasets = {"training": training, "validation": validation}
        return identity_of(decided, start.origin, accelerator, datasets)

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
        identity=identity(recipe),
        ranks=ranks,
    )
    if arguments.resume and ranks.share_object(has_state(run_dir / _STATE)):
        trainer.resume(identity(then))
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
    found = folds.run(arguments, recipe, rows, run_dir, accelerator)
    with opened_logs(
        arguments.log_to if ranks.is_first else (),
        arguments.output.resolve().name,
        folder=run_dir,
        first_step=trainer.step,
    ) as log:
        log.begin(parameters_of(recipe, start.origin, training, validation))
        trainer.observe(log.step)
        history = _fit(trainer, recipe, run_dir, log, save_every=arguments.save_every, ranks=ranks)
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
        log.end(final_values(exported.figures, exported.manifest.temperature), step=trainer.step)
    fit_report.unless_unwritten(lambda: plot_history(history, run_dir / _PLOT), run_dir / _PLOT)
    fit_report.say_end(recipe, history, exported, training=training, validation=validation)
    folds.say_mean(found)
    say(f"checkpoint: {arguments.output}")
    return 0


def _fetch(arguments: argparse.Namespace) -> None:
    """Replaces names of the hub by the files and the folder that they stand for."""
    arguments.files = local_files(arguments.files)
    arguments.validation = local_files(arguments.validation or ())
    arguments.evaluate = local_files(arguments.evaluate)
    if arguments.init_from is not None:
        arguments.init_from = local_folder(arguments.init_from)


def _read(arguments: argparse.Namespace, recipe: Recipe) -> tuple[Dataset, Dataset, Dataset]:
    """Reads the rows, and divides them; some training texts of the Penn style are rewritten.

    Returns:
        All rows of the files, the training rows and the validation rows.
    """
    columns = columns_of(arguments)
    rows = read_training(arguments.files, columns=columns, labels=arguments.labels)
    if arguments.validation:
        training = rows
        validation = read_dataset(arguments.validation, columns=columns, labels=rows.labels)
    else:
        training, validation = hold_out_rows(
            rows, which=recipe.hold_out, share=recipe.validation_share, seed=recipe.seed
        )
    texts = undo_penn_in_share(training.texts, share=recipe.undo_penn_share, seed=recipe.seed)
    return rows, replace(training, texts=texts), validation


def _fit(
    trainer: Trainer,
    recipe: Recipe,
    run_dir: Path,
    log: RunLog,
    *,
    save_every: int,
    ranks: Ranks,
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
            log.epoch(history[count - 1])
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
