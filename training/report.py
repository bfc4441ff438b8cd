"""From the figures of one file to lines for people and to an object for JSON."""

from collections.abc import Sequence
from typing import TypedDict

from model.manifest import DataSource
from training.metrics import Figures


class FileReport(TypedDict):
    """What JSON says of one file; the names and the order are stable."""

    file: str
    sha256: str
    rows: int
    truncated: int
    accuracy: float
    accuracy_interval: list[float]
    macro_f1: float
    f1: dict[str, float | None]
    log_loss: float
    ece: float
    confusion: list[list[int]]


def to_json(
    path: str, source: DataSource, figures: Figures, *, labels: Sequence[str], truncated: int
) -> FileReport:
    """The figures of one file as JSON holds them.

    Args:
        path: of the file, as the user gave it.
        source: what is known of the file.
        figures: what was measured on it.
        labels: names of the classes, in their order.
        truncated: how many texts were cut short.
    """
    return {
        "file": path,
        "sha256": source.sha256,
        "rows": figures.rows,
        "truncated": truncated,
        "accuracy": figures.accuracy,
        "accuracy_interval": list(figures.interval),
        "macro_f1": figures.macro_f1,
        "f1": dict(zip(labels, figures.f1, strict=True)),
        "log_loss": figures.log_loss,
        "ece": figures.ece,
        "confusion": [list(row) for row in figures.confusion],
    }


def to_text(report: FileReport) -> str:
    """The figures of one file as people read them.

    Args:
        report: of the file.

    Returns:
        Several lines, the last one ended.
    """
    low, high = report["accuracy_interval"]
    lines = [
        report["file"],
        f"  rows       {report['rows']:,} ({report['truncated']:,} truncated)",
        f"  accuracy   {report['accuracy']:.2%} (95 % interval {low:.2%} to {high:.2%})",
        f"  macro F1   {report['macro_f1']:.4f} ({_scores(report['f1'])})",
        f"  log-loss   {report['log_loss']:.4f}",
        f"  ECE        {report['ece']:.4f}",
        *(f"  {line}" for line in _confusion_lines(list(report["f1"]), report["confusion"])),
    ]
    return "\n".join(lines) + "\n"


def _scores(f1: dict[str, float | None]) -> str:
    return ", ".join(
        f"{label} {'none' if score is None else f'{score:.4f}'}" for label, score in f1.items()
    )


def _confusion_lines(labels: Sequence[str], confusion: Sequence[Sequence[int]]) -> list[str]:
    """Rows are true classes, columns predicted ones, all figures right-aligned."""
    corner = "true \\ predicted"
    first = max(len(corner), *map(len, labels))
    widths = [
        max(len(label), *(len(f"{row[column]:,}") for row in confusion))
        for column, label in enumerate(labels)
    ]
    header = [label.rjust(width) for label, width in zip(labels, widths, strict=True)]
    return [
        "  ".join([corner.ljust(first), *header]),
        *(
            "  ".join(
                [
                    label.ljust(first),
                    *(f"{n:,}".rjust(width) for n, width in zip(row, widths, strict=True)),
                ]
            )
            for label, row in zip(labels, confusion, strict=True)
        ),
    ]
