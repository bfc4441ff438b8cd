"""Prints what `headlight-train fit` does: its rows, its figures, baselines and advice."""

import argparse
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from model.checkpoint.location import DEFAULT, local_folder
from model.checkpoint.opening import open_checkpoint
from model.cli.progress import say
from model.errors import CheckpointError
from model.loading import load_predictor
from training.data.dataset import Dataset
from training.fit.export import Exported
from training.measure.history import Measurement
from training.measure.inference import predict_probabilities
from training.measure.summary import (
    baseline_line,
    end_line,
    figure_lines,
    majority,
    result_warnings,
    row_warnings,
    rows_line,
)
from training.measure.tfidf import baseline_accuracy, is_cheap
from training.run import Run

# Below this many rows a network that knows the language already is better by far.
FEW_ROWS = 20_000
# At fewer steps even a pretrained network hardly moves, unless its rate is high.
FEW_STEPS, HIGH_RATE = 100, 3e-4


def say_beginning(
    arguments: argparse.Namespace, fit: Run, evaluated: Mapping[str, Dataset]
) -> None:
    """Prints the rows of a run and warnings about them, before any time is spent."""
    recipe, training, total = fit.recipe, fit.training, fit.trainer.total_steps
    say(rows_line(training, "learn from"))
    say(rows_line(fit.validation, "validate on"))
    for warning in row_warnings(training, fit.validation, evaluated):
        say(f"warning: {warning}")
    if arguments.resume:
        return
    if fit.start.known:
        say(f"begins with what --init-from knows of {', '.join(fit.start.known)}")
    if arguments.init_from is None and recipe.network is not None and len(training) < FEW_ROWS:
        say(
            f"warning: {len(training):,} rows are few for a network that begins with random "
            f"weights (below {FEW_ROWS:,}): a pretrained one is more accurate. Add --init-from "
            f"{find_pretrained() or 'DIR or --init-from hf:NAME@REVISION'}, and --overwrite; leave "
            "--preset and what you chose for random weights out"
        )
    elif total < FEW_STEPS and recipe.learning_rate < HIGH_RATE:
        say(
            f"warning: {total} steps are few to learn from (below {FEW_STEPS}): try "
            "more --epochs, a smaller --batch-size, or a higher --learning-rate such as "
            f"{HIGH_RATE:g}"
        )


def find_pretrained() -> Path | None:
    """Finds the folder of the checkpoint that ships; None if it is missing."""
    folder = local_folder(DEFAULT)
    return folder if folder.is_dir() else None


def say_end(fit: Run, history: Sequence[Measurement], exported: Exported) -> None:
    """Prints the figures, the baselines to beat, and warnings about the result."""
    recipe, training, validation = fit.recipe, fit.training, fit.validation
    temperature = exported.manifest.temperature
    say(end_line(history, epochs=recipe.epochs, keeps_best=recipe.keep == "best"))
    say(f"temperature {temperature:.3f}")
    label, share = majority(training, validation)
    was_fitted = is_cheap(training)
    baseline: float | None = None
    if was_fitted:
        # Ctrl-C only leaves the baseline out, for the checkpoint is written already.
        with suppress(KeyboardInterrupt):
            baseline = baseline_accuracy(training, validation)
    start = _start(fit)
    for name, figures in exported.figures.items():
        for line in figure_lines(name, figures, training.labels):
            say(line)
        if name == "validation":
            say(baseline_line(label, share, baseline, was_fitted=was_fitted, start=start))
    for warning in result_warnings(
        exported.figures["validation"],
        temperature,
        training.labels,
        share=share,
        baseline=baseline,
        start=start,
        balanced=recipe.class_weights == "balanced",
    ):
        say(f"warning: {warning}")


def _start(fit: Run) -> tuple[str, float] | None:
    """Measures what a run began with; None if that does not answer with the classes of the rows."""
    folder, validation = fit.context.init_from, fit.validation
    if folder is None:
        return None
    try:
        checkpoint = open_checkpoint(folder)
        known = checkpoint.config.labels
        if set(known) != set(validation.labels):
            return None
        device = fit.context.accelerator.device
        predictor = load_predictor(checkpoint, device=device, dtype="float32")
        answers = predict_probabilities(predictor, validation.texts, label="before training")
    except (CheckpointError, KeyboardInterrupt):  # an encoder without a classifier, or Ctrl-C
        return None
    truth = [known.index(validation.labels[number]) for number in validation.label_ids]
    accuracy = float((answers.values.argmax(axis=1) == truth).mean())
    return fit.start.origin.get("init_from_hub", str(folder)), accuracy


def warn_if_unwritten(write: Callable[[], None], path: Path) -> None:
    """Writes a file that a run can do without, and warns if that fails."""
    try:
        write()
    except OSError as error:
        say(f"warning: {path} could not be written ({error.strerror or error}); the run goes on")
