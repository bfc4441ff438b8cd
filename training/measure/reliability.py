"""Draws reliability diagrams: how often predictions of each score are right.

Legend: N texts.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from numpy.typing import NDArray

from training.measure.metrics import NUM_BINS, expected_calibration_error
from training.measure.plots import TRAINING_COLOUR, VALIDATION_COLOUR, save_figure

_SIDE, _MOST_COLUMNS = 3.2, 3
# Bins with fewer texts are not drawn: their share says next to nothing.
_FEWEST = 5


@dataclass(frozen=True, slots=True)
class Scores:
    """A model's scores on the texts of one file, and whether they were right.

    Args:
        title: of the file.
        calibrated: probability of the predicted class [N].
        uncalibrated: the same without the temperature [N].
        correct: whether that class is right [N].
    """

    title: str
    calibrated: NDArray[np.float64]
    uncalibrated: NDArray[np.float64]
    correct: NDArray[np.bool_]


def plot_reliability(scores: Sequence[Scores], path: Path) -> None:
    """Draws accuracy against score in 15 bins, with and without the temperature.

    Args:
        scores: of each file, at least one.
        path: of the picture, PNG or SVG.

    Raises:
        OSError: the picture could not be written.
    """
    columns = min(len(scores), _MOST_COLUMNS)
    lines = math.ceil(len(scores) / columns)
    figure = Figure(figsize=(_SIDE * columns, _SIDE * lines), layout="constrained")
    every = figure.subplots(lines, columns, squeeze=False).ravel()
    for place, axes in enumerate(every):
        if place < len(scores):
            _draw(axes, scores[place])
        else:
            axes.remove()
    save_figure(figure, path)


def _draw(axes: Axes, scores: Scores) -> None:
    axes.plot([0, 1], [0, 1], color="#999999", linewidth=0.8)
    for values, colour, marker, label in (
        (scores.uncalibrated, VALIDATION_COLOUR, "s", "uncalibrated"),
        (scores.calibrated, TRAINING_COLOUR, "o", "calibrated"),
    ):
        bins = (np.ceil(values * NUM_BINS).astype(np.int64) - 1).clip(0, NUM_BINS - 1)  # [N]
        full = [at for at in range(NUM_BINS) if (bins == at).sum() >= _FEWEST]
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
