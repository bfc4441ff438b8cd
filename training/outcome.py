"""Says what a run learns from, what came of it, and what makes its result doubtful."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress

from model.checkpoint.location import DEFAULT, local_folder
from model.checkpoint.opening import open_checkpoint
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


WARNING = "warning: "


def beginning(
    fit: Run, evaluated: Mapping[str, Dataset], *, is_resumed: bool = False
) -> Iterator[str]:
    """Yields lines about the rows of a run, before any time is spent, and then warnings."""
    recipe, training, total = fit.recipe, fit.training, fit.trainer.total_steps
    yield rows_line(training, "learn from")
    yield rows_line(fit.validation, "validate on")
    for warning in row_warnings(training, fit.validation, evaluated):
        yield WARNING + warning
    if is_resumed:
        return
    if fit.start.known:
        yield f"begins with what its first weights know of {', '.join(fit.start.known)}"
    is_random = fit.context.init_from is None
    if is_random and recipe.network is not None and len(training) < FEW_ROWS:
        shipped = local_folder(DEFAULT)
        where = shipped if shipped.is_dir() else "a pretrained encoder"
        yield (
            f"{WARNING}{len(training):,} rows are few for a network that begins with random "
            f"weights (below {FEW_ROWS:,}): a pretrained one is more accurate. Begin with "
            f"{where}, and leave the preset and what you chose for random weights out"
        )
    elif total < FEW_STEPS and recipe.learning_rate < HIGH_RATE:
        yield (
            f"{WARNING}{total} steps are few to learn from (below {FEW_STEPS}): try "
            "more epochs, a smaller batch size, or a higher learning rate such as "
            f"{HIGH_RATE:g}"
        )


def ending(fit: Run, history: Sequence[Measurement], exported: Exported) -> Iterator[str]:
    """Yields lines about what was kept, its figures and the baselines to beat, and warnings."""
    recipe, training, validation = fit.recipe, fit.training, fit.validation
    temperature = exported.manifest.temperature
    yield end_line(history, epochs=recipe.epochs, keeps_best=recipe.keep == "best")
    yield f"temperature {temperature:.3f}"
    label, share = majority(training, validation)
    was_fitted = is_cheap(training)
    baseline: float | None = None
    if was_fitted:
        # Ctrl-C only leaves the baseline out, for the checkpoint is written already.
        with suppress(KeyboardInterrupt):
            baseline = baseline_accuracy(training, validation)
    start = _start(fit)
    for name, figures in exported.figures.items():
        yield from figure_lines(name, figures, training.labels)
        if name == "validation":
            yield baseline_line(label, share, baseline, was_fitted=was_fitted, start=start)
    for warning in result_warnings(
        exported.figures["validation"],
        temperature,
        training.labels,
        share=share,
        baseline=baseline,
        start=start,
        is_balanced=recipe.class_weights == "balanced",
        is_pretrained=fit.context.init_from is not None,
    ):
        yield WARNING + warning


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
