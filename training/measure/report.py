"""Writes the figures of a model as text for people and as objects for JSON."""

import itertools
from collections.abc import Sequence
from textwrap import indent
from typing import Any

import numpy as np
import tabulate
from numpy.typing import NDArray

from model.checkpoint.records import ThresholdReport
from model.predictor import ModelInfo

tabulate.MIN_PADDING = 0  # a heading needs no more room than its text
_LENGTHS = (16, 32, 64, 128, 256)
# What `--json` has of one file. Names and order are stable.
FileReport = dict[str, Any]


def to_text(report: FileReport) -> str:
    """Formats the figures of one file for people, in lines that are each ended."""
    low, high = report["accuracy_interval"]
    lines = [
        report["file"],
        f"  rows       {report['rows']:,} ({report['truncated']:,} truncated)",
        f"  accuracy   {report['accuracy']:.2%} (95 % interval {low:.2%} to {high:.2%})",
        f"  macro F1   {report['macro_f1']:.4f} ({_scores(report['f1'])})",
        f"  log-loss   {report['log_loss']:.4f}",
        f"  ECE        {report['ece']:.4f} ({report['ece_uncalibrated']:.4f} uncalibrated)",
        f"  by length  {_lengths(report['by_length'])}",
    ]
    tables = [
        _confusion_table(list(report["f1"]), report["confusion"]),
        threshold_table(report["by_threshold"]),
    ]
    return "\n".join([*lines, *(indent(table, "  ") for table in tables)]) + "\n"


def length_reports(
    token_counts: NDArray[np.integer], correct: NDArray[np.bool_]
) -> list[dict[str, Any]]:
    """Measures accuracy by the tokens that were read of each text [N]."""
    reports = []
    for low, high in itertools.pairwise((0, *_LENGTHS, np.iinfo(np.int64).max)):
        chosen = (token_counts > low) & (token_counts <= high)
        if chosen.any():
            longest = min(int(high), int(token_counts.max()))
            accuracy = float(correct[chosen].mean())
            reports.append(
                {"tokens": [low + 1, longest], "rows": int(chosen.sum()), "accuracy": accuracy}
            )
    return reports


def summarise(info: ModelInfo, reports: Sequence[FileReport]) -> dict[str, object]:
    """Builds what `--json` writes. Names and order are stable."""
    return {
        "checkpoint": {"name": info.name, "version": info.version},
        "labels": list(info.labels),
        "temperature": info.temperature,
        "device": info.device,
        "dtype": info.dtype,
        "files": list(reports),
    }


def _lengths(reports: Sequence[dict[str, Any]]) -> str:
    return ", ".join(
        f"{report['tokens'][0]} to {report['tokens'][1]} tokens {report['accuracy']:.2%} "
        f"({report['rows']:,})"
        for report in reports
    )


def _scores(f1: dict[str, float | None]) -> str:
    return ", ".join(
        f"{label} {'none' if score is None else f'{score:.4f}'}" for label, score in f1.items()
    )


def plain_table(rows: Sequence[Sequence[str]], head: Sequence[str], *, first: str = "right") -> str:
    """Formats a table for people; all columns but the first are aligned to the right."""
    alignment = [first, *("right" for _ in head[1:])]
    table: str = tabulate.tabulate(rows, head, "plain", colalign=alignment, disable_numparse=True)
    return table


def _confusion_table(labels: Sequence[str], confusion: Sequence[Sequence[int]]) -> str:
    """Formats the confusion matrix: true classes in rows, predicted ones in columns."""
    rows = [
        [label, *(f"{count:,}" for count in row)]
        for label, row in zip(labels, confusion, strict=True)
    ]
    head = ["true \\ predicted", *labels]
    return plain_table(rows, head, first="left")


def threshold_table(reports: Sequence[ThresholdReport]) -> str:
    """Formats thresholds as a table for people: a line for each, below two lines of headings."""
    labels = list(reports[0]["precision"])
    rows = [
        [
            f"{report['threshold']:.2f}",
            f"{report['share']:.2%}",
            _percent(report["accuracy"]),
            *(
                f"{_percent(report['precision'][label])}, {_percent(report['recall'][label]):>7}"
                for label in labels
            ),
        ]
        for report in reports
    ]
    head = ["\nthreshold", "\nanswered", "\naccuracy"]
    head += [f"{label}\nprecision, recall" for label in labels]
    return plain_table(rows, head)


def _percent(share: float | None) -> str:
    return "none" if share is None else f"{share:.2%}"
