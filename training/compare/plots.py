"""Draws the runs of a comparison: their curves, and the gap between training and validation."""

import math
from collections.abc import Callable, Sequence
from pathlib import Path

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import PercentFormatter

from training.compare.comparison import Outcome
from training.measure.history import Measurement
from training.measure.plots import TRAINING_COLOUR, VALIDATION_COLOUR, save_figure

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
        _draw(loss, outcome, lambda point: point.training_loss, lambda point: point.validation_loss)
        _draw(
            accuracy,
            outcome,
            lambda point: point.training_accuracy,
            lambda point: point.validation_accuracy,
        )
        accuracy.yaxis.set_major_formatter(PercentFormatter(xmax=1.0))
        accuracy.set_xlabel("step")
        if column == 0:
            loss.set_ylabel("loss (nats)")
            accuracy.set_ylabel("accuracy")
        if index == 0:
            loss.legend(fontsize=8)
    save_figure(figure, path)


def _draw(
    axes: Axes,
    outcome: Outcome,
    training: Callable[[Measurement], float],
    validation: Callable[[Measurement], float],
) -> None:
    """Draws means over the runs as lines, and the range from least to greatest as bands."""
    epochs = list(zip(*(run.history for run in outcome.runs), strict=True))
    steps = [points[0].step for points in epochs]
    for figure, colour, marker, label in (
        (training, TRAINING_COLOUR, "o", "training"),
        (validation, VALIDATION_COLOUR, "s", "validation"),
    ):
        values = [[figure(point) for point in points] for points in epochs]
        axes.plot(
            steps,
            [sum(each) / len(each) for each in values],
            color=colour,
            marker=marker,
            markersize=3,
            label=label,
        )
        axes.fill_between(
            steps,
            [min(each) for each in values],
            [max(each) for each in values],
            color=colour,
            alpha=0.2,
            linewidth=0,
        )
    axes.grid(visible=True, alpha=0.3)


def plot_gaps(outcomes: Sequence[Outcome], path: Path) -> None:
    """Draws training and validation accuracy of every run, joined, one row for each variant."""
    figure = Figure(figsize=(8, 0.5 * len(outcomes) + 1.2), layout="constrained")
    axes = figure.subplots()
    for row, outcome in enumerate(outcomes):
        for number, run in enumerate(outcome.runs):
            height = row + 0.6 * _middle(number, len(outcome.runs))
            ends = [run.training.accuracy, run.validation.accuracy]
            first = row == 0 and number == 0
            axes.plot(ends, [height, height], color="#999999", linewidth=0.8, zorder=1)
            for end, colour, marker, label in (
                (ends[0], TRAINING_COLOUR, "o", "training"),
                (ends[1], VALIDATION_COLOUR, "s", "validation"),
            ):
                axes.scatter(
                    [end],
                    [height],
                    s=14,
                    color=colour,
                    marker=marker,
                    zorder=2,
                    label=label if first else None,
                )
    axes.set_yticks(range(len(outcomes)), [outcome.title for outcome in outcomes])
    axes.invert_yaxis()
    axes.set_xlabel("accuracy in the end")
    axes.xaxis.set_major_formatter(PercentFormatter(xmax=1.0))
    axes.grid(visible=True, axis="x", alpha=0.3)
    axes.legend(loc="lower left", fontsize=8)
    save_figure(figure, path)


def _middle(number: int, count: int) -> float:
    """Spreads several points evenly around 0, between -0.5 and 0.5."""
    return (number + 0.5) / count - 0.5


def _broken(title: str) -> str:
    """Breaks a title into two lines, so that columns stay narrow."""
    return title.replace(", ", ",\n", 1) if ", " in title else title.replace(" (", "\n(", 1)
