"""Runs `headlight-train fit` on labelled files: trains a checkpoint and records its history."""

import argparse
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from model.atomic import remove_folder
from model.checkpoint.location import local_folder
from model.cli.progress import say
from model.cli.signals import noted_signals, raised_signals
from model.files import WEIGHTS, check_folder
from training import outcome
from training.cli.fit_options import STORE_DTYPES, choose_run_dir, recipe_of
from training.cli.options import columns_of
from training.cli.run_lock import locked
from training.data.dataset import Dataset
from training.data.hub import local_files
from training.data.validation_split import read_and_split, read_evaluated
from training.device import choose_accelerator
from training.distributed import Ranks, current
from training.errors import RecipeError, ResumeError, TrainingError
from training.fit import checkpointing
from training.fit.export import Exported
from training.fit.state import has_state
from training.measure.history import Measurement, write_history
from training.measure.summary import epoch_line
from training.run import STATE, Run, TrainingContext
from training.tracking.logs import check_installed

_HISTORY = "history.jsonl"


def run(arguments: argparse.Namespace) -> int:
    """Trains, calibrates, measures and saves a checkpoint."""
    ranks = current()
    check_installed(arguments.log_to)
    run_dir = choose_run_dir(arguments)
    with locked(run_dir, arguments.output, ranks=ranks):
        return _run(arguments, run_dir, ranks)


def _run(arguments: argparse.Namespace, run_dir: Path, ranks: Ranks) -> int:
    recipe = recipe_of(arguments)
    arguments.resume = _may_resume(arguments, run_dir / STATE, ranks)
    init_from = arguments.init_from and local_folder(arguments.init_from)
    if init_from is not None:
        check_folder(init_from)
    context = TrainingContext(
        accelerator=choose_accelerator(
            arguments.device, threads=arguments.threads, dtype=arguments.dtype, ranks=ranks
        ),
        save_every=arguments.save_every,
        stop=lambda: None,
        ranks=ranks,
        init_from=init_from,
        name=arguments.output.resolve().name,
        targets=tuple(arguments.log_to) if ranks.is_first else (),
    )
    columns = columns_of(arguments)
    training, validation = read_and_split(
        local_files(arguments.files),
        local_files(arguments.validation or ()),
        columns=columns,
        labels=arguments.labels,
        which=recipe.validation_split,
        share=recipe.validation_share,
        seed=recipe.seed,
    )
    evaluated = read_evaluated(
        local_files(arguments.evaluate), columns=columns, labels=training.labels
    )
    fit = Run(recipe, training, validation, context, folder=run_dir)
    if arguments.resume:
        fit.trainer.resume()
        say(f"resuming after step {fit.trainer.step}")
    demand = checkpointing.demand_of(
        fit.start.network,
        fit.start.tokenizer,
        dtype=STORE_DTYPES[arguments.store_dtype],
        has_average=fit.recipe.average_decay > 0.0,
        state_dir=fit.state_dir,
        is_over=fit.trainer.is_over,
    )
    if ranks.is_first:
        checkpointing.check_space(demand, run_dir=run_dir, output=arguments.output)
    ranks.wait()
    for line in outcome.beginning(fit, evaluated, is_resumed=arguments.resume):
        say(line)
    with noted_signals() as stop:
        fit.context = replace(context, stop=ranks.agree(stop))
        result = _fit(arguments, fit, evaluated, size=demand.checkpoint)
    if result is None:
        return 0
    history, exported = result
    with raised_signals(lambda: f"interrupted: the checkpoint {arguments.output} is written"):
        for line in outcome.ending(fit, history, exported):
            say(line)
        say(f"checkpoint: {arguments.output}")
    return 0


def _may_resume(arguments: argparse.Namespace, state: Path, ranks: Ranks) -> bool:
    """Finds out whether a run is resumed, and keeps the state of another."""
    is_resumed = arguments.resume
    if ranks.is_first:
        # torchrun restarts the processes after one was lost: the user types no --resume.
        is_resumed = has_state(state) if ranks.restarts else is_resumed
        if is_resumed and not has_state(state):
            raise ResumeError(f"{state}: there is no interrupted run to resume; leave out --resume")
        if has_state(state) and not (is_resumed or arguments.overwrite):
            raise RecipeError(
                f"{state} holds the state of a run: resume it with --resume, or discard it with "
                "--overwrite"
            )
    return bool(ranks.share_object(is_resumed))


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
            remove_folder(fit.state_dir)
            path.unlink(missing_ok=True)

    def report(history: Sequence[Measurement]) -> None:
        say(epoch_line(history, epochs=fit.recipe.epochs))
        if is_first:
            try:
                write_history(history, path)
            except OSError as error:
                reason = error.strerror or error
                say(f"warning: {path} could not be written ({reason}); the run goes on")

    def write() -> Exported:
        dtype = STORE_DTYPES[arguments.store_dtype]
        return fit.write(arguments.output, evaluated=evaluated, dtype=dtype)

    with fit.trained(fit.context.name, report) as (history, log):
        if not is_first:
            return None
        with raised_signals(trainer.interrupted):
            exported = _write(write, fit, arguments.output, size)
            remove_folder(fit.state_dir)
            log.end(exported.figures, exported.manifest.temperature, step=trainer.step)
    return history, exported


def _write(write: Callable[[], Exported], fit: Run, output: Path, size: int) -> Exported:
    """Writes the checkpoint of `size` bytes; a full disk loses no state of the run."""
    try:
        try:
            return write()
        except OSError as error:
            if error.errno not in checkpointing.FULL or fit.trainer.unsaved is None:
                raise
            # The state on disk is an old one: it makes room for the weights that are trained.
            remove_folder(fit.state_dir)
            return write()
    except OSError as error:
        reason = checkpointing.describe_unwritten(error, output / WEIGHTS, size)
        rest = (
            "the trained weights are saved, and the same command with --resume only writes the "
            "checkpoint"
            if fit.trainer.unsaved is None
            else f"nor is the last state saved: {checkpointing.resume_hint(fit.state_dir)}"
        )
        raise TrainingError(f"the checkpoint: {reason}: make room; {rest}") from error
