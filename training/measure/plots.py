"""Draws loss and accuracy of a run, for training and validation."""

from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import PercentFormatter

from training.errors import RecipeError
from training.measure.history import Measurement

SUFFIXES = (".png", ".svg")
# From the palette of Okabe and Ito (2008), which colour-blind readers can tell apart.
TRAINING_COLOUR, VALIDATION_COLOUR, _BEST = "#0072B2", "#D55E00", "#666666"


def plot_history(history: Sequence[Measurement], path: Path) -> None:
    """Draws loss and accuracy against steps, side by side, and marks the least validation loss.

    Args:
        history: one measurement or more, in the order of their steps.
        path: of the picture; PNG or SVG by its suffix.

    Raises:
        RecipeError: the suffix is another, or there is nothing to draw.
        OSError: the picture could not be written.
    """
    check_suffix(path)
    if not history:
        raise RecipeError("there is nothing to plot: the history holds 0 measurements")
    # Without pyplot, which needs a window system and keeps global state.
    figure = Figure(figsize=(10, 4), layout="constrained")
    loss, accuracy = figure.subplots(1, 2)
    _draw(
        loss,
        history,
        [measurement.training_loss for measurement in history],
        [measurement.validation_loss for measurement in history],
    )
    loss.set_title("Loss")
    loss.set_ylabel("cross-entropy (nats)")
    _draw(
        accuracy,
        history,
        [measurement.training_accuracy for measurement in history],
        [measurement.validation_accuracy for measurement in history],
    )
    accuracy.set_title("Accuracy")
    accuracy.set_ylabel("share of right labels")
    accuracy.yaxis.set_major_formatter(PercentFormatter(xmax=1.0))
    save_figure(figure, path)


def check_suffix(path: Path) -> None:
    """Refuses a picture that is neither PNG nor SVG.

    Raises:
        RecipeError: the suffix is another than PNG's or SVG's.
    """
    if path.suffix.lower() not in SUFFIXES:
        raise RecipeError(
            f"a plot is written as {' or '.join(SUFFIXES)}, got {path.name}: change the suffix"
        )


def _draw(
    axes: Axes,
    history: Sequence[Measurement],
    training: Sequence[float],
    validation: Sequence[float],
) -> None:
    steps = [measurement.step for measurement in history]
    best = min(history, key=lambda measurement: measurement.validation_loss).step
    axes.plot(steps, training, marker="o", markersize=3, color=TRAINING_COLOUR, label="training")
    axes.plot(
        steps, validation, marker="s", markersize=3, color=VALIDATION_COLOUR, label="validation"
    )
    axes.axvline(best, color=_BEST, linestyle=":", label="least validation loss")
    axes.set_xlabel("step")
    axes.grid(visible=True, alpha=0.3)
    axes.legend()


def save_figure(figure: Figure, path: Path) -> None:
    """Writes a picture to a temporary file that is then renamed.

    Args:
        figure: drawn.
        path: of the picture, PNG or SVG by its suffix.

    Raises:
        OSError: the picture could not be written.
    """
    beside = path.with_name(f".part-{path.name}")
    try:
        figure.savefig(beside, dpi=120)
        beside.replace(path)
    except OSError:
        with suppress(OSError):  # half a picture is of no use, and takes room
            beside.unlink(missing_ok=True)
        raise
