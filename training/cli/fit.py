"""Runs `headlight-train fit` on labelled files: trains a checkpoint and records its history."""

import argparse
from collections.abc import Callable, Sequence
from pathlib import Path

from model.checkpoint.hub_folder import local_folder
from model.cli.progress import say
from model.files import WEIGHTS
from training.cli import fit_report, plan
from training.cli.fit_options import STORE_DTYPES, check_one_run, choose_run_dir
from training.cli.fit_resume import check_leftovers, extended_recipe, has_leftovers
from training.cli.options import check_folds, columns_of, recipe_of
from training.cross_validation import (
    Fold,
    TrainingContext,
    detokenized,
    fold_line,
    folds_line,
    make_trainer,
    remove_folds,
    run_folds,
)
from training.data.dataset import Dataset, read_dataset
from training.data.hub import local_files
from training.data.validation_split import read_evaluated, read_training, split_validation
from training.device import Accelerator, choose_accelerator
from training.distributed import Ranks, current
from training.errors import DivergedRunError, NoSpaceError
from training.fit.checkpointing import (
    FULL,
    check_space,
    demand_of,
    describe_unwritten,
    resume_hint,
)
from training.fit.export import Exported, write_checkpoint
from training.fit.initial import begin
from training.fit.recipe import Recipe
from training.fit.run_fingerprint import run_fingerprint
from training.fit.state import has_state, remove_state
from training.fit.trainer import Trainer
from training.measure.history import Measurement, write_history
from training.measure.plots import plot_history
from training.measure.summary import epoch_line
from training.signals import noted_signals, raised_signals
from training.tracking.logs import (
    CombinedLogger,
    check_installed,
    final_values,
    opened_logs,
    parameters_of,
)

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
    run_dir = choose_run_dir(arguments)
    state_dir = run_dir / _STATE
    if ranks.restarts and ranks.is_first:
        # torchrun has restarted the processes after one was lost: the user types no --resume.
        arguments.resume = has_leftovers(arguments, state_dir)
    if ranks.is_first:
        check_leftovers(arguments, state_dir)
    arguments.resume = ranks.share_object(arguments.resume)
    recipe, then = extended_recipe(arguments, recipe, state_dir, ranks)
    _fetch(arguments)
    accelerator = choose_accelerator(
        arguments.device, threads=arguments.threads, dtype=arguments.dtype, ranks=ranks
    )
    rows, training, validation = _read(arguments, recipe)
    evaluated = read_evaluated(
        arguments.evaluate, columns=columns_of(arguments), labels=training.labels
    )
    start = begin(recipe, arguments.init_from, training)
    trainer = make_trainer(
        recipe, start, training, validation, accelerator=accelerator, state_dir=state_dir,
        ranks=ranks,
    )  # fmt: skip
    if arguments.resume and ranks.share_object(has_state(state_dir)):
        data = {"training": training, "validation": validation}
        trainer.resume(run_fingerprint(then, start.origin, accelerator, data))
        say(f"resuming after step {trainer.step}")
    dtype = STORE_DTYPES[arguments.store_dtype]
    demand = demand_of(
        start.network,
        start.tokenizer,
        dtype=dtype,
        has_average=recipe.average_decay > 0.0,
        state_dir=state_dir,
        is_over=trainer.is_over,
    )
    if ranks.is_first:
        check_space(demand, run_dir=run_dir, output=arguments.output)
    ranks.wait()
    fit_report.say_beginning(
        arguments, recipe, trainer, training=training, validation=validation, evaluated=evaluated
    )
    folds = _cross_validate(arguments, recipe, rows, run_dir, accelerator)
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

        def write() -> Exported:
            return write_checkpoint(
                arguments.output,
                start,
                seed=recipe.seed,
                record=recipe.model_dump(mode="json"),
                training=training,
                validation=validation,
                evaluated=evaluated,
                device=accelerator.device,
                dtype=dtype,
            )

        with raised_signals(trainer.interrupted):
            exported = _write(write, trainer, state_dir, arguments.output, demand.checkpoint)
            if not arguments.keep_state:
                remove_state(state_dir)
        log.end(final_values(exported.figures, exported.manifest.temperature), step=trainer.step)
    plot = run_dir / _PLOT
    fit_report.warn_if_unwritten(lambda: plot_history(history, plot), plot)
    fit_report.say_end(recipe, history, exported, training=training, validation=validation)
    if folds:
        say(folds_line(folds))
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
    """Returns all rows of the files, the training rows and the validation rows."""
    columns = columns_of(arguments)
    rows = read_training(arguments.files, columns=columns, labels=arguments.labels)
    if arguments.validation:
        training = rows
        validation = read_dataset(arguments.validation, columns=columns, labels=rows.labels)
    else:
        training, validation = split_validation(
            rows, which=recipe.hold_out, share=recipe.validation_share, seed=recipe.seed
        )
    return rows, detokenized(training, recipe), validation


def _cross_validate(
    arguments: argparse.Namespace,
    recipe: Recipe,
    rows: Dataset,
    run_dir: Path,
    accelerator: Accelerator,
) -> list[Fold]:
    """Trains and measures a network for each fold, if the user asks for folds."""
    count: int | None = arguments.folds
    if count is None:
        return []
    if not arguments.resume:
        remove_folds(run_dir)
    say(
        f"{count} folds: each is measured by a network that is trained on the rows of the others; "
        "the checkpoint follows"
    )
    with noted_signals() as stop:
        folds = run_folds(
            recipe,
            rows,
            count=count,
            folder=run_dir,
            label="",
            context=TrainingContext(
                accelerator=accelerator,
                init_from=arguments.init_from,
                save_every=arguments.save_every,
                stop=stop,
                name=arguments.output.resolve().name,
                targets=tuple(arguments.log_to),
            ),
            report=lambda fold: say(fold_line(fold, count)),
        )
    say(folds_line(folds))
    return folds


def _fit(
    trainer: Trainer,
    recipe: Recipe,
    run_dir: Path,
    log: CombinedLogger,
    *,
    save_every: int,
    ranks: Ranks,
) -> list[Measurement]:
    """Trains from the start or from the last state, and prints each epoch."""
    if ranks.is_first:
        run_dir.mkdir(parents=True, exist_ok=True)
        if not trainer.step:
            remove_state(run_dir / _STATE)
            for left in (_HISTORY, _PLOT):
                (run_dir / left).unlink(missing_ok=True)
    printed = 0

    def record(history: Sequence[Measurement]) -> None:
        nonlocal printed
        for count in range(printed + 1, len(history) + 1):
            say(epoch_line(history[:count], epochs=recipe.epochs))
            log.epoch(history[count - 1])
        printed = len(history)
        path = run_dir / _HISTORY
        if ranks.is_first:
            fit_report.warn_if_unwritten(lambda: write_history(history, path), path)

    try:
        with noted_signals() as stop:
            return trainer.run(save_every=save_every, stop=ranks.agree(stop), record=record)
    except DivergedRunError:
        # A resumed run would diverge again.
        if ranks.is_first:
            remove_state(run_dir / _STATE)
        raise


def _write(
    write: Callable[[], Exported], trainer: Trainer, state_dir: Path, output: Path, size: int
) -> Exported:
    """Writes the checkpoint of `size` bytes; a full disk loses no state of the run."""
    try:
        try:
            return write()
        except OSError as error:
            if error.errno not in FULL or trainer.unsaved is None:
                raise
            # The state on disk is an old one: it makes room for the weights that are trained.
            remove_state(state_dir)
            return write()
    except OSError as error:
        fault = describe_unwritten(error, output / WEIGHTS, size)
        rest = (
            "the trained weights are saved, and the same command with --resume only writes the "
            "checkpoint"
            if trainer.unsaved is None
            else f"nor is the last state saved: {resume_hint(state_dir)}"
        )
        raise NoSpaceError(f"the checkpoint: {fault}: make room; {rest}") from error
