"""Draws the course of runs, and reliability diagrams: how often each of N scores is right."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from numpy.typing import NDArray

from model.atomic import replacing
from training.errors import RecipeError
from training.measure.history import Measurement
from training.measure.metrics import NUM_BINS, expected_calibration_error

SUFFIXES = (".png", ".svg")
# From the palette of Okabe and Ito (2008), which colour-blind readers can distinguish.
TRAINING_COLOUR, VALIDATION_COLOUR = "#0072B2", "#D55E00"


def check_suffix(path: Path) -> None:
    """Refuses a picture that is neither PNG nor SVG."""
    if path.suffix.lower() not in SUFFIXES:
        raise RecipeError(
            f"a plot is written as {' or '.join(SUFFIXES)}, got {path.name}: change the suffix"
        )


def draw_curves(axes: Axes, runs: Sequence[Sequence[Measurement]], name: str) -> None:
    """Draws loss or accuracy of runs against steps, in training and in validation.

    Lines are means over the runs, bands reach from the least to the greatest.
    """
    epochs = list(zip(*runs, strict=True))
    steps = [points[0].step for points in epochs]
    for rows, colour, marker in (
        ("training", TRAINING_COLOUR, "o"),
        ("validation", VALIDATION_COLOUR, "s"),
    ):
        values = np.array([[getattr(point, f"{rows}_{name}") for point in each] for each in epochs])
        mean, low, high = values.mean(axis=1), values.min(axis=1), values.max(axis=1)
        axes.plot(steps, mean, color=colour, marker=marker, markersize=3, label=rows)
        axes.fill_between(steps, low, high, color=colour, alpha=0.2, linewidth=0)
    axes.grid(visible=True, alpha=0.3)


def save_figure(figure: Figure, path: Path) -> None:
    """Writes a picture whole or not at all, in the form of its suffix."""
    with replacing(path) as file:
        figure.savefig(file, format=path.suffix[1:], dpi=120)


_SIDE, _MOST_COLUMNS = 3.2, 3
# Bins with fewer texts are not drawn: their share says next to nothing.
_FEWEST_TEXTS = 5


@dataclass(frozen=True, slots=True)
class Scores:
    """A model's scores of the N predicted classes in one file, and whether they were right."""

    title: str
    calibrated: NDArray[np.float64]
    uncalibrated: NDArray[np.float64]
    correct: NDArray[np.bool_]


def plot_reliability(scores: Sequence[Scores], path: Path) -> None:
    """Draws accuracy against score in 15 bins, with and without the temperature."""
    columns = min(len(scores), _MOST_COLUMNS)
    lines = math.ceil(len(scores) / columns)
    figure = Figure(figsize=(_SIDE * columns, _SIDE * lines), layout="constrained")
    every = figure.subplots(lines, columns, squeeze=False).ravel()
    for index, axes in enumerate(every):
        if index < len(scores):
            _draw_reliability(axes, scores[index])
        else:
            axes.remove()
    save_figure(figure, path)


def _draw_reliability(axes: Axes, scores: Scores) -> None:
    axes.plot([0, 1], [0, 1], color="#999999", linewidth=0.8)
    for values, colour, marker, label in (
        (scores.uncalibrated, VALIDATION_COLOUR, "s", "uncalibrated"),
        (scores.calibrated, TRAINING_COLOUR, "o", "calibrated"),
    ):
        bins = (np.ceil(values * NUM_BINS).astype(np.int64) - 1).clip(0, NUM_BINS - 1)  # [N]
        full = [at for at in range(NUM_BINS) if (bins == at).sum() >= _FEWEST_TEXTS]
        ece = expected_calibration_error(values, scores.correct)
        axes.plot(
            [float(values[bins == at].mean()) for at in full],
            [float(scores.correct[bins == at].mean()) for at in full],
            color=colour,
            marker=marker,
            markersize=4,
            linewidth=1,
            label=f"{label}, ECE {ece:.3f}",
        )
    low = 1 / 2 if float(scores.calibrated.min()) >= 1 / 2 else 0.0
    axes.set_xlim(low, 1.0)
    axes.set_ylim(low, 1.0)
    axes.set_title(f"{scores.title} ({len(scores.correct):,})", fontsize=9)
    axes.set_xlabel("score")
    axes.set_ylabel("share that is right")
    axes.grid(visible=True, alpha=0.3)
    # A legend for each file, since it shows the file's calibration error.
    axes.legend(fontsize=7, loc="lower right")
