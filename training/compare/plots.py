"""Draws the runs of a comparison: their curves, and the gap between training and validation."""

import math
from collections.abc import Sequence
from pathlib import Path

from matplotlib.figure import Figure
from matplotlib.ticker import PercentFormatter

from training.compare.comparison import Outcome
from training.measure.plots import (
    TRAINING_COLOUR,
    VALIDATION_COLOUR,
    draw_curves,
    save_figure,
)

_WIDTH, _HEIGHT = 2.6, 2.1
_MOST_COLUMNS = 4


def plot_curves(outcomes: Sequence[Outcome], path: Path) -> None:
    """Draws loss and accuracy against steps, for training and validation, for each variant."""
    trained = [outcome for outcome in outcomes if outcome.runs[0].history]
    columns = max(min(len(trained), _MOST_COLUMNS), 1)
    lines = max(math.ceil(len(trained) / columns), 1)
    figure = Figure(figsize=(_WIDTH * columns, 2 * _HEIGHT * lines), layout="constrained")
    axes = figure.subplots(2 * lines, columns, squeeze=False)
    for index in range(lines * columns):
        line, column = divmod(index, columns)
        loss, accuracy = axes[2 * line][column], axes[2 * line + 1][column]
        if index >= len(trained):
            loss.remove()
            accuracy.remove()
            continue
        outcome = trained[index]
        loss.set_title(_broken(outcome.title), fontsize=9)
        loss.sharey(axes[0][0])
        accuracy.sharey(axes[1][0])
        runs = [run.history for run in outcome.runs]
        draw_curves(loss, runs, "loss")
        draw_curves(accuracy, runs, "accuracy")
        accuracy.yaxis.set_major_formatter(PercentFormatter(xmax=1.0))
        accuracy.set_xlabel("step")
        if column == 0:
            loss.set_ylabel("loss (nats)")
            accuracy.set_ylabel("accuracy")
        if index == 0:
            loss.legend(fontsize=8)
    save_figure(figure, path)


def plot_gaps(outcomes: Sequence[Outcome], path: Path) -> None:
    """Draws training and validation accuracy of every run, joined, one row for each variant."""
    figure = Figure(figsize=(8, 0.5 * len(outcomes) + 1.2), layout="constrained")
    axes = figure.subplots()
    for row, outcome in enumerate(outcomes):
        for number, run in enumerate(outcome.runs):
            # The runs of a variant lie side by side around its row.
            height = row + 0.6 * ((number + 0.5) / len(outcome.runs) - 0.5)
            first = row == 0 and number == 0
            ends = [
                (run.training.accuracy, TRAINING_COLOUR, "o", "training"),
                (run.validation.accuracy, VALIDATION_COLOUR, "s", "validation"),
            ]
            joined = [accuracy for accuracy, *_ in ends]
            axes.plot(joined, [height, height], color="#999999", linewidth=0.8, zorder=1)
            for accuracy, colour, marker, rows in ends:
                label = rows if first else None
                axes.scatter(
                    [accuracy], [height], s=14, color=colour, marker=marker, zorder=2, label=label
                )
    axes.set_yticks(range(len(outcomes)), [outcome.title for outcome in outcomes])
    axes.invert_yaxis()
    axes.set_xlabel("accuracy in the end")
    axes.xaxis.set_major_formatter(PercentFormatter(xmax=1.0))
    axes.grid(visible=True, axis="x", alpha=0.3)
    axes.legend(loc="lower left", fontsize=8)
    save_figure(figure, path)


def _broken(title: str) -> str:
    """Breaks a title into two lines, so that columns stay narrow."""
    return title.replace(", ", ",\n", 1) if ", " in title else title.replace(" (", "\n(", 1)
