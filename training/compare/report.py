"""Writes the report of a comparison: a page in Markdown, its plots, and all figures as JSON."""

import math
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

import tabulate
from matplotlib.figure import Figure
from matplotlib.ticker import PercentFormatter
from pydantic import TypeAdapter

from model.atomic import write_whole
from training.compare.run import Comparison, Outcome, VariantRun, spread
from training.errors import RecipeError
from training.measure.metrics import wilson_interval
from training.measure.plots import TRAINING_COLOUR, VALIDATION_COLOUR, draw_curves, save_figure

REPORT, FIGURES, CURVES, GAPS = "report.md", "comparison.json", "curves.png", "gaps.png"
_SPLITS = {
    "last": "the last rows of the files, taken off before anything was shuffled",
    "random": "rows of each class by chance, the same for every run",
    "files": "the rows of files of their own",
}
_FIGURES: tuple[tuple[str, Callable[[VariantRun], float], int], ...] = (
    ("training accuracy (%)", lambda run: 100 * run.training.accuracy, 1),
    ("validation accuracy (%)", lambda run: 100 * run.validation.accuracy, 1),
    ("gap (points)", lambda run: 100 * run.gap, 1),
    ("training loss", lambda run: run.training.loss, 3),
    ("validation loss", lambda run: run.validation.loss, 3),
    ("seconds", lambda run: run.seconds, 1),
)


def to_markdown(comparison: Comparison) -> str:
    """Writes the page of the report."""
    first, *others = outcomes = comparison.outcomes
    results = [
        [outcome.title, f"{outcome.parameters:,}"]
        + [_shown(map(figure, outcome.runs), digits) for _, figure, digits in _FIGURES]
        for outcome in outcomes
    ]
    rows = comparison.validation_rows
    mean, _ = spread(run.validation.accuracy for run in first.runs)
    low, high = wilson_interval(round(mean * rows), rows)
    sections = [
        "# Variants side by side",
        "Written by `headlight-train compare`; this repeats it:",
        f"    {comparison.command}",
        f"{comparison.training_rows:,} rows were learnt from and {rows:,} validated by: "
        f"{_SPLITS[comparison.hold_out]}. Every network saw the training rows {comparison.epochs} "
        "times and kept the weights of the last epoch. Means over the seeds; behind ± the standard "
        "deviation between them.",
        _table(
            ["file", "rows", "SHA-256 begins"],
            [[f"`{x.file}`", f"{x.rows:,}", f"`{x.sha256[:12]}`"] for x in comparison.sources],
        ),
        f"Machine: {comparison.machine}.",
        "## Results",
        _table(["variant", "parameters", *(heading for heading, *_ in _FIGURES)], results),
        f"With {rows:,} validation rows, an accuracy like that of the first line has a 95 % "
        f"interval of {100 * low:.1f} to {100 * high:.1f} %, whatever the seeds say.",
        "Losses are mean negative log-likelihoods in nats. All figures are measured in evaluation "
        "mode on all rows; seconds are only those of training.",
    ]
    compared = [other for other in others if len(other.runs) == len(first.runs) > 1]
    if compared:
        sections += [
            f"## Against {first.title}",
            "Differences seed by seed, in points.",
            _table(
                ["variant", "validation accuracy", "gap"],
                [_difference(other, first) for other in compared],
            ),
        ]
    sections += [
        "## Loss and accuracy against steps",
        f"![Loss and accuracy against steps, two plots for each variant]({CURVES})",
        "Lines are means over the seeds, bands reach from the least to the greatest.",
        "## The gap",
        f"![Training and validation accuracy of each variant]({GAPS})",
        "Each mark is a run: training accuracy and validation accuracy, joined.",
    ]
    return "\n\n".join(sections) + "\n"


def _difference(outcome: Outcome, first: Outcome) -> list[str]:
    pairs = list(zip(outcome.runs, first.runs, strict=True))
    accuracy = [100 * (a.validation.accuracy - b.validation.accuracy) for a, b in pairs]
    gap = [100 * (a.gap - b.gap) for a, b in pairs]
    return [outcome.title, *(_shown(values, 1, sign="+") for values in (accuracy, gap))]


def _shown(values: Iterable[float], digits: int, *, sign: str = "") -> str:
    mean, deviation = spread(values)
    behind = "" if deviation is None else f" ± {deviation:.{digits}f}"
    return f"{mean:{sign}.{digits}f}{behind}"


def _table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    alignment = ["left", *("right" for _ in head[1:])]
    table: str = tabulate.tabulate(rows, head, "pipe", colalign=alignment, disable_numparse=True)
    return table


def plot_curves(outcomes: Sequence[Outcome], path: Path) -> None:
    """Draws loss and accuracy against steps, a row of plots for each variant."""
    trained = [outcome for outcome in outcomes if outcome.runs[0].history]
    lines = max(math.ceil(len(trained) / 2), 1)
    figure = Figure(figsize=(11, 2.2 * lines), layout="constrained")
    every = figure.subplots(lines, 4, squeeze=False).reshape(-1, 2)
    for index, (loss, accuracy) in enumerate(every):
        if index >= len(trained):
            loss.remove()
            accuracy.remove()
            continue
        runs = [run.history for run in trained[index].runs]
        loss.set_title(trained[index].title, fontsize=8, loc="left")
        for axes, name in ((loss, "loss"), (accuracy, "accuracy")):
            draw_curves(axes, runs, name)
            axes.set_ylabel(name)
            axes.sharey(every[0][0] if name == "loss" else every[0][1])
            axes.set_xlabel("step")
        accuracy.yaxis.set_major_formatter(PercentFormatter(xmax=1.0))
        if index == 0:
            loss.legend(fontsize=8)
    save_figure(figure, path)


def plot_gaps(outcomes: Sequence[Outcome], path: Path) -> None:
    """Draws training and validation accuracy of every run, joined, one row for each variant."""
    figure = Figure(figsize=(8, 0.5 * len(outcomes) + 1.2), layout="constrained")
    axes = figure.subplots()
    for row, outcome in enumerate(outcomes):
        # The runs of a variant lie side by side around its row.
        count = len(outcome.runs)
        heights = [row + 0.6 * ((number + 0.5) / count - 0.5) for number in range(count)]
        training = [run.training.accuracy for run in outcome.runs]
        validation = [run.validation.accuracy for run in outcome.runs]
        axes.hlines(heights, validation, training, color="#999999", linewidth=0.8, zorder=1)
        for values, colour, marker, rows in (
            (training, TRAINING_COLOUR, "o", "training"),
            (validation, VALIDATION_COLOUR, "s", "validation"),
        ):
            label = rows if row == 0 else None
            axes.scatter(values, heights, s=14, color=colour, marker=marker, label=label)
    axes.set_yticks(range(len(outcomes)), [outcome.title for outcome in outcomes])
    axes.invert_yaxis()
    axes.set_xlabel("accuracy in the end")
    axes.xaxis.set_major_formatter(PercentFormatter(xmax=1.0))
    axes.grid(visible=True, axis="x", alpha=0.3)
    axes.legend(loc="lower left", fontsize=8)
    save_figure(figure, path)


def check_output(output: Path, *, overwrite: bool) -> None:
    """Refuses to replace a report without `--overwrite`, or other files."""
    if output.exists() and not output.is_dir():
        raise RecipeError(f"{output} is a file: give the path of a folder")
    if output.exists() and any(output.iterdir()):
        if not (output / FIGURES).is_file():
            raise RecipeError(f"{output} holds other files than a report: choose another --output")
        if not overwrite:
            raise RecipeError(
                f"{output} holds a report already: choose another --output, or --overwrite it"
            )


def write_report(output: Path, comparison: Comparison) -> None:
    """Writes page, figures and plots, the figures last: a folder with them is a whole report."""
    output.mkdir(parents=True, exist_ok=True)
    plot_curves(comparison.outcomes, output / CURVES)
    plot_gaps(comparison.outcomes, output / GAPS)
    write_whole(output / REPORT, to_markdown(comparison).encode())
    figures = TypeAdapter(Comparison).dump_json(comparison, indent=1)
    write_whole(output / FIGURES, figures + b"\n")
