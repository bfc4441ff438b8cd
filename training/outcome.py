"""Says what a run learns from, what came of it, and what makes its result doubtful."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress

from model.checkpoint.location import DEFAULT, local_folder
from training.data.dataset import Dataset
from training.fit.export import Exported
from training.measure import summary
from training.measure.history import Measurement
from training.measure.tfidf import baseline_accuracy, is_cheap
from training.run import Run

# Below this many rows a network that knows the language already is better by far.
FEW_ROWS = 20_000
WARNING = "warning: "


def beginning(
    fit: Run, evaluated: Mapping[str, Dataset], *, is_resumed: bool = False
) -> Iterator[str]:
    """Yields lines about the rows of a run, before any time is spent, and then warnings."""
    training = fit.training
    yield summary.rows_line(training, "learn from")
    yield summary.rows_line(fit.validation, "validate on")
    for warning in summary.row_warnings(training, fit.validation, evaluated):
        yield WARNING + warning
    if is_resumed:
        return
    is_random = fit.context.init_from is None
    if fit.knows_classes:
        yield f"begins with what its first weights know of {', '.join(training.labels)}"
    elif not is_random:
        yield "begins with logistic regression on the features of its first weights"
    if fit.recipe.layers is not None:
        yield f"keeps {fit.recipe.layers} layers: of few long rows, words say more than their order"
    if is_random and fit.recipe.network is not None and len(training) < FEW_ROWS:
        shipped = local_folder(DEFAULT)
        where = shipped if shipped.is_dir() else "a pretrained encoder"
        yield (
            f"{WARNING}{len(training):,} rows are few for a network that begins with random "
            f"weights (below {FEW_ROWS:,}): a pretrained one is more accurate. Begin with "
            f"{where}, and leave the preset and what you chose for random weights out"
        )


def ending(fit: Run, history: Sequence[Measurement], exported: Exported) -> Iterator[str]:
    """Yields lines about what was kept, its figures and the baselines to beat, and warnings."""
    recipe, training, validation = fit.recipe, fit.training, fit.validation
    temperature = exported.manifest.temperature
    yield summary.end_line(history, epochs=recipe.epochs, kept=fit.trainer.state.best_epoch)
    yield f"temperature {temperature:.3f}"
    label, share = summary.majority(training, validation)
    was_fitted = is_cheap(training)
    baseline: float | None = None
    if was_fitted:
        # Ctrl-C only leaves the baseline out, for the checkpoint is written already.
        with suppress(KeyboardInterrupt):
            baseline = baseline_accuracy(training, validation)
    start = _start(fit)
    for name, figures in exported.figures.items():
        yield from summary.figure_lines(name, figures, training.labels)
        if name == "validation":
            yield summary.baseline_line(label, share, baseline, was_fitted=was_fitted, start=start)
    for warning in summary.result_warnings(
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
    """Names what a run with pretrained weights began with, and its accuracy."""
    measured = fit.trainer.state.start
    if measured is None:
        return None
    name = fit.start.origin.get("init_from_hub", str(fit.context.init_from))
    if not fit.knows_classes:
        name = f"logistic regression on the features of {name}"
    return name, measured.accuracy
