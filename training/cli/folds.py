"""Cross-validates what `headlight-train fit --folds` is about to train."""

import argparse
from collections.abc import Sequence
from pathlib import Path

from model.cli.progress import say
from training.data.dataset import Dataset
from training.device import Accelerator
from training.fit.recipe import Recipe
from training.signals import noted_signals
from training.trials.candidate import TrainingContext
from training.trials.folds import Fold, fold_line, folds_line, remove_folds, run_folds


def run(
    arguments: argparse.Namespace,
    recipe: Recipe,
    rows: Dataset,
    run_dir: Path,
    accelerator: Accelerator,
) -> list[Fold]:
    """Trains and measures a network for each fold, if there are to be any, and tells the figures.

    Args:
        arguments: of the command line.
        recipe: of every network.
        rows: all rows of the files.
        run_dir: the folder of the run, which keeps the folds that are done.
        accelerator: where the networks compute.

    Returns:
        The folds; none without the option.

    Raises:
        TrainingError: the rows or a run cannot be used, or a signal came.
    """
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
        found = run_folds(
            recipe,
            rows,
            count=count,
            folder=run_dir,
            label="",
            bench=TrainingContext(
                accelerator=accelerator,
                init_from=arguments.init_from,
                save_every=arguments.save_every,
                stop=stop,
                name=arguments.output.resolve().name,
                targets=tuple(arguments.log_to),
            ),
            tell=lambda fold: say(fold_line(fold, count)),
        )
    say_mean(found)
    return found


def say_mean(folds: Sequence[Fold]) -> None:
    """Tells mean and standard deviation of the folds, if there are any."""
    if folds:
        say(folds_line(folds))
