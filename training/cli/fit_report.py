"""Tells what `headlight-train fit` does: its rows before, its figures and baselines after."""

import argparse
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from model.cli.progress import say
from training.cli.advice import (
    FEW_ROWS,
    FEW_STEPS,
    HIGH_RATE,
    find_pretrained,
    pretrained_command,
)
from training.cli.recipe_options import PRETRAINED_DECIDES
from training.data.dataset import Dataset
from training.fit.export import Exported
from training.fit.recipe import Recipe
from training.fit.trainer import Trainer
from training.measure.cautions import result_cautions, row_cautions
from training.measure.history import Measurement
from training.measure.summary import baseline_line, end_line, figure_lines, majority, rows_line
from training.measure.tfidf import baseline_accuracy, is_cheap


def say_beginning(
    arguments: argparse.Namespace,
    recipe: Recipe,
    trainer: Trainer,
    *,
    training: Dataset,
    validation: Dataset,
    evaluated: Mapping[str, Dataset],
) -> None:
    """Tells what is trained on, and what is to be feared of it, before any time is spent."""
    say(rows_line(training, "learn from"))
    say(rows_line(validation, "validate on"))
    for caution in row_cautions(training, validation, evaluated):
        say(f"warning: {caution}")
    if arguments.resume:
        return
    if arguments.init_from is None and recipe.network is not None and len(training) < FEW_ROWS:
        say(
            f"warning: {len(training):,} rows are few for a network that begins with random "
            f"weights (below {FEW_ROWS:,}): a pretrained one is more accurate. "
            + _advice(arguments.typed)
        )
    elif trainer.total_steps < FEW_STEPS and recipe.learning_rate < HIGH_RATE:
        say(
            f"warning: {trainer.total_steps} steps are few to learn from (below {FEW_STEPS}): try "
            "more --epochs, a smaller --batch-size, or a higher --learning-rate such as "
            f"{HIGH_RATE:g}"
        )


def _advice(typed: Sequence[str]) -> str:
    folder = find_pretrained()
    if folder is None:
        return "Give one with --init-from DIR or --init-from hf:NAME@REVISION"
    command = pretrained_command(typed, folder, without=PRETRAINED_DECIDES)
    return f"Type instead:\n  {command}"


def say_end(
    recipe: Recipe,
    history: Sequence[Measurement],
    exported: Exported,
    *,
    training: Dataset,
    validation: Dataset,
) -> None:
    """Tells the figures, what they have to beat, and where they say less than they seem to."""
    temperature = exported.manifest.temperature
    say(end_line(history, epochs=recipe.epochs, keeps_best=recipe.keep == "best"))
    say(f"temperature {temperature:.3f}")
    label, share = majority(training, validation)
    was_fitted = is_cheap(training)
    baseline = _baseline(training, validation) if was_fitted else None
    for name, figures in exported.figures.items():
        for line in figure_lines(name, figures, training.labels):
            say(line)
        if name == "validation":
            say(baseline_line(label, share, baseline, was_fitted=was_fitted))
    cautions = result_cautions(
        exported.figures["validation"],
        temperature,
        training.labels,
        share=share,
        baseline=baseline,
    )
    for caution in cautions:
        say(f"warning: {caution}")


def _baseline(training: Dataset, validation: Dataset) -> float | None:
    """Fits the baseline. Ctrl-C leaves it out, for the checkpoint is written already."""
    try:
        return baseline_accuracy(training, validation)
    except KeyboardInterrupt:
        return None


def unless_unwritten(write: Callable[[], None], path: Path) -> None:
    """Writes a file that a run can do without, and warns if that fails."""
    try:
        write()
    except OSError as error:
        say(f"warning: {path} could not be written ({error.strerror or error}); the run goes on")
