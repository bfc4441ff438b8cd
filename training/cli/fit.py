"""Runs `headlight-train fit` on labelled files: trains a checkpoint and records its history."""

import argparse
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from model.cli.progress import say
from model.files import WEIGHTS
from training.cli import fit_report, plan
from training.cli.fit_options import STORE_DTYPES, check_one_run, choose_run_dir
from training.cli.fit_resume import choose_recipe
from training.cli.run_lock import locked
from training.cli.run_setup import context_of, read_rows
from training.cli.shared_options import check_folds, columns_of
from training.cross_validation import Fold, fold_line, folds_line, remove_folds, run_folds
from training.data.dataset import Dataset
from training.data.hub import local_files
from training.data.validation_split import read_evaluated
from training.distributed import Ranks, current
from training.errors import NoSpaceError
from training.fit.checkpointing import FULL, check_space, describe_unwritten, resume_hint
from training.fit.export import Exported
from training.fit.state import has_state, remove_state
from training.measure.history import Measurement, write_history
from training.measure.plots import plot_history
from training.measure.summary import epoch_line
from training.run import Run
from training.signals import noted_signals, raised_signals
from training.tracking.logs import check_installed, final_values

_HISTORY, _PLOT = "history.jsonl", "history.png"


def run(arguments: argparse.Namespace) -> int:
    """Trains, calibrates, measures and saves a checkpoint."""
    if arguments.plan is not None:
        check_folds(arguments, processes=1)
        return plan.run(arguments)
    ranks = current()
    check_one_run(arguments, processes=ranks.count)
    check_installed(arguments.log_to)
    run_dir = choose_run_dir(arguments)
    with locked(run_dir, arguments.output, ranks=ranks):
        return _run(arguments, run_dir, ranks)


def _run(arguments: argparse.Namespace, run_dir: Path, ranks: Ranks) -> int:
    recipe, previous = choose_recipe(arguments, run_dir, ranks)
    context = context_of(arguments, run_dir, ranks=ranks)
    rows, training, validation = read_rows(arguments, recipe)
    files = local_files(arguments.evaluate)
    evaluated = read_evaluated(files, columns=columns_of(arguments), labels=rows.labels)
    fit = Run(recipe, training, validation, context, folder=run_dir)
    if arguments.resume and ranks.share_object(has_state(fit.state_dir)):
        fit.trainer.resume(fit.fingerprint(previous))
        say(f"resuming after step {fit.trainer.step}")
    demand = fit.demand(STORE_DTYPES[arguments.store_dtype])
    if ranks.is_first:
        check_space(demand, run_dir=run_dir, output=arguments.output)
    ranks.wait()
    fit_report.say_beginning(arguments, fit, evaluated)
    with noted_signals() as stop:
        fit.context = replace(context, stop=ranks.agree(stop))
        folds = _cross_validate(arguments, fit, rows)
        result = _fit(arguments, fit, evaluated, size=demand.checkpoint)
    if result is None:
        return 0
    history, exported = result
    plot = run_dir / _PLOT
    fit_report.warn_if_unwritten(lambda: plot_history(history, plot), plot)
    fit_report.say_end(fit, history, exported)
    if folds:
        say(folds_line(folds))
    say(f"checkpoint: {arguments.output}")
    return 0


def _cross_validate(arguments: argparse.Namespace, fit: Run, rows: Dataset) -> list[Fold]:
    """Trains and measures a network for each fold, if the user asks for folds."""
    count: int | None = arguments.folds
    if count is None:
        return []
    if not arguments.resume:
        remove_folds(fit.folder)
    say(
        f"{count} folds: each is measured by a network that is trained on the rows of the others; "
        "the checkpoint follows"
    )
    folds = run_folds(
        fit.recipe,
        rows,
        count=count,
        folder=fit.folder,
        label="",
        context=fit.context,
        report=lambda fold: say(fold_line(fold, count)),
    )
    say(folds_line(folds))
    return folds


def _fit(
    arguments: argparse.Namespace, fit: Run, evaluated: Mapping[str, Dataset], *, size: int
) -> tuple[Sequence[Measurement], Exported] | None:
    """Trains from the start or from the last state, and writes the checkpoint of `size` bytes.

    None in every process but the first.
    """
    is_first, trainer, path = fit.context.ranks.is_first, fit.trainer, fit.folder / _HISTORY
    if is_first:
        fit.folder.mkdir(parents=True, exist_ok=True)
        if not trainer.step:
            remove_state(fit.state_dir)
            for name in (_HISTORY, _PLOT):
                (fit.folder / name).unlink(missing_ok=True)

    def report(history: Sequence[Measurement]) -> None:
        say(epoch_line(history, epochs=fit.recipe.epochs))
        if is_first:
            fit_report.warn_if_unwritten(lambda: write_history(history, path), path)

    def write() -> Exported:
        dtype = STORE_DTYPES[arguments.store_dtype]
        return fit.write(arguments.output, evaluated=evaluated, dtype=dtype)

    with fit.trained(fit.context.name, report) as (history, log):
        if not is_first:
            return None
        with raised_signals(trainer.interrupted):
            exported = _write(write, fit, arguments.output, size)
            if not arguments.keep_state:
                remove_state(fit.state_dir)
            log.end(
                final_values(exported.figures, exported.manifest.temperature), step=trainer.step
            )
    return history, exported


def _write(write: Callable[[], Exported], fit: Run, output: Path, size: int) -> Exported:
    """Writes the checkpoint of `size` bytes; a full disk loses no state of the run."""
    try:
        try:
            return write()
        except OSError as error:
            if error.errno not in FULL or fit.trainer.unsaved is None:
                raise
            # The state on disk is an old one: it makes room for the weights that are trained.
            remove_state(fit.state_dir)
            return write()
    except OSError as error:
        fault = describe_unwritten(error, output / WEIGHTS, size)
        rest = (
            "the trained weights are saved, and the same command with --resume only writes the "
            "checkpoint"
            if fit.trainer.unsaved is None
            else f"nor is the last state saved: {resume_hint(fit.state_dir)}"
        )
        raise NoSpaceError(f"the checkpoint: {fault}: make room; {rest}") from error
