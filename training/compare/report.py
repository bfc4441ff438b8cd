"""Writes the report of a comparison: a page in Markdown, its plots, and all figures as JSON."""

import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path

from model.files import sync
from training.compare.comparison import Comparison, Outcome, Spread, VariantRun, spread, to_json
from training.compare.plots import plot_curves, plot_gaps
from training.errors import RecipeError
from training.measure.metrics import wilson_interval

REPORT, FIGURES, CURVES, GAPS = "report.md", "comparison.json", "curves.png", "gaps.png"
_HOLD_OUT = {
    "last": "the last rows of the files, taken off before anything was shuffled",
    "random": "rows of each class by chance, the same for every run",
    "files": "the rows of files of their own",
}
_FIGURES: tuple[tuple[str, Callable[[VariantRun], float], float, int], ...] = (
    ("training accuracy (%)", lambda run: run.training.accuracy, 100, 1),
    ("validation accuracy (%)", lambda run: run.validation.accuracy, 100, 1),
    ("gap (points)", lambda run: run.gap, 100, 1),
    ("training loss", lambda run: run.training.loss, 1, 3),
    ("validation loss", lambda run: run.validation.loss, 1, 3),
    ("seconds", lambda run: run.seconds, 1, 1),
)


def to_markdown(comparison: Comparison) -> str:
    """Writes the page of the report."""
    outcomes = comparison.outcomes
    seeds = max(len(outcome.runs) for outcome in outcomes)
    sections = [
        "# Variants side by side",
        "Written by `headlight-train compare`; this repeats it:",
        f"    {comparison.command}",
        f"{comparison.training_rows:,} rows were learnt from and {comparison.validation_rows:,} "
        f"held out: {_HOLD_OUT[comparison.hold_out]}. Every network saw the training rows "
        f"{comparison.epochs} times and kept the weights of the last epoch, and was trained with "
        f"{seeds} seeds. Means over the seeds; behind ± the standard deviation between them.",
        _sources(comparison),
        f"Machine: {comparison.machine}.",
        "## Results",
        _table(
            ("variant", "parameters", *(heading for heading, *_ in _FIGURES)),
            [_row(outcome) for outcome in outcomes],
        ),
        _interval(comparison),
        "Losses are mean negative log-likelihoods in nats. All four figures are measured in "
        "evaluation mode on all rows; seconds are only those of training.",
        "## With hindsight",
        "Where the validation loss was least. The rows that chose the epoch also measure it, so "
        "these figures flatter.",
        _table(
            ("variant", "epoch", "validation accuracy (%)", "validation loss"),
            [_best_row(outcome) for outcome in outcomes if outcome.runs[0].history],
        ),
        *_differences(outcomes),
        "## Loss and accuracy against steps",
        f"![Loss and accuracy against steps, two plots for each variant]({CURVES})",
        "Lines are means over the seeds, bands reach from the least to the greatest.",
        "## The gap",
        f"![Training and validation accuracy of each variant]({GAPS})",
        "Each mark is a run: training accuracy and validation accuracy, joined.",
    ]
    return "\n\n".join(section for section in sections if section) + "\n"


def _sources(comparison: Comparison) -> str:
    rows = [
        (f"`{source.file}`", f"{source.rows:,}", f"`{source.sha256[:12]}`")
        for source in comparison.sources
    ]
    return _table(("file", "rows", "SHA-256 begins"), rows)


def _row(outcome: Outcome) -> Sequence[str]:
    cells = (
        _shown(outcome.spread(figure), scale=scale, digits=digits)
        for _, figure, scale, digits in _FIGURES
    )
    return (outcome.title, f"{outcome.parameters:,}", *cells)


def _best_row(outcome: Outcome) -> Sequence[str]:
    points = [run.best for run in outcome.runs if run.best is not None]
    return (
        outcome.title,
        _shown(spread([point.epoch for point in points]), scale=1, digits=1),
        _shown(spread([point.validation_accuracy for point in points]), scale=100, digits=1),
        _shown(spread([point.validation_loss for point in points]), scale=1, digits=3),
    )


def _interval(comparison: Comparison) -> str:
    mean = comparison.outcomes[0].spread(lambda run: run.validation.accuracy).mean
    rows = comparison.validation_rows
    low, high = wilson_interval(round(mean * rows), rows)
    return (
        f"With {rows:,} validation rows, an accuracy like that of the first line has a 95 % "
        f"interval of {100 * low:.1f} to {100 * high:.1f} %, whatever the seeds say: ± shows how "
        "much chance in training matters, not how much the choice of rows does."
    )


def _differences(outcomes: Sequence[Outcome]) -> list[str]:
    """Compares each variant with the first, seed by seed."""
    first, *others = outcomes
    compared = [outcome for outcome in others if _seeds(outcome) == _seeds(first)]
    if not compared or len(first.runs) < 2:
        return []
    rows = []
    for outcome in compared:
        pairs = list(zip(outcome.runs, first.runs, strict=True))
        accuracy = spread([a.validation.accuracy - b.validation.accuracy for a, b in pairs])
        gap = spread([a.gap - b.gap for a, b in pairs])
        rows.append(
            (
                outcome.title,
                _shown(accuracy, scale=100, digits=1, sign=True),
                _shown(gap, scale=100, digits=1, sign=True),
            )
        )
    return [
        f"## Against {first.title}",
        "Differences seed by seed, in points.",
        _table(("variant", "validation accuracy", "gap"), rows),
    ]


def _seeds(outcome: Outcome) -> list[int]:
    return [run.seed for run in outcome.runs]


def _shown(value: Spread, *, scale: float, digits: int, sign: bool = False) -> str:
    form = f"{'+' if sign else ''}.{digits}f"
    mean = f"{scale * value.mean:{form}}"
    if value.deviation is None:
        return mean
    return f"{mean} ± {scale * value.deviation:.{digits}f}"


def _table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = [header, ["---"] + ["---:"] * (len(header) - 1), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


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
    """Writes page, figures and plots to a scratch folder, then moves each file to its place."""
    output.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=output, prefix=".part-") as scratch:
        fresh = Path(scratch)
        (fresh / REPORT).write_text(to_markdown(comparison), encoding="utf-8")
        (fresh / FIGURES).write_text(to_json(comparison), encoding="utf-8")
        plot_curves(comparison.outcomes, fresh / CURVES)
        plot_gaps(comparison.outcomes, fresh / GAPS)
        for path in sorted(fresh.iterdir()):
            sync(path)
            path.replace(output / path.name)
