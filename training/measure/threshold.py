"""Measures what a threshold on the score leaves: how much is answered, and how well.

A model that may abstain trades the share of answers for their accuracy (El-Yaniv and Wiener 2010,
*On the foundations of noise-free selective classification*).

Legend: N texts, C classes.
"""

from collections.abc import Sequence
from typing import TypedDict

import numpy as np
from numpy.typing import NDArray

_ALL = 0.0
_THRESHOLDS = (0.5, 0.6, 0.7, 0.8, 0.9, 0.95, 0.98, 0.99)
_HEADING = ("threshold", "answered", "accuracy")
_CLASS = "precision, recall"


class ThresholdReport(TypedDict):
    """What is left of a file at one threshold; names and order are stable.

    `precision` and `recall` are by class. Where nothing can be counted there is None: the accuracy
    of no answers, the precision of a class that is never answered, the recall of a class that no
    text has.
    """

    threshold: float
    rows: int
    share: float
    accuracy: float | None
    precision: dict[str, float | None]
    recall: dict[str, float | None]


def threshold_reports(
    probabilities: NDArray[np.floating], label_ids: NDArray[np.integer], labels: Sequence[str]
) -> list[ThresholdReport]:
    """Measures the answers whose score is a threshold or more, for thresholds from 0.5 to 0.99.

    The score of a text is its largest probability. With two classes none is below 0.5; with more
    there may be, so the first threshold is 0 there, which answers all.

    Args:
        probabilities: of every class, each row summing to 1 [N, C]; N is at least 1.
        label_ids: the true classes [N].
        labels: names of the classes, in order.

    Returns:
        A report for each threshold, ascending. Recall counts a text without an answer as missed.
    """
    scores, predicted = probabilities.max(axis=1), probabilities.argmax(axis=1)  # [N]
    thresholds = _THRESHOLDS if len(labels) == 2 else (_ALL, *_THRESHOLDS)
    true = np.bincount(label_ids, minlength=len(labels))  # [C]
    reports: list[ThresholdReport] = []
    for threshold in thresholds:
        answered = scores >= threshold  # [N]
        given = np.bincount(predicted[answered], minlength=len(labels))  # [C]
        right = np.bincount(
            predicted[answered & (predicted == label_ids)], minlength=len(labels)
        )  # [C]
        rows = int(answered.sum())
        reports.append(
            {
                "threshold": threshold,
                "rows": rows,
                "share": rows / len(scores),
                "accuracy": _share(right.sum(), rows),
                "precision": dict(zip(labels, map(_share, right, given), strict=True)),
                "recall": dict(zip(labels, map(_share, right, true), strict=True)),
            }
        )
    return reports


def _share(part: int | np.integer, whole: int | np.integer) -> float | None:
    return int(part) / int(whole) if whole else None


def threshold_lines(reports: Sequence[ThresholdReport]) -> list[str]:
    """Formats thresholds as a table for people: a line for each, below two lines of headings."""
    labels = list(reports[0]["precision"])
    width = max(len(_CLASS), *map(len, labels))
    rows = [
        (f"{report['threshold']:.2f}", f"{report['share']:.2%}", _percent(report["accuracy"]))
        for report in reports
    ]
    cells = [
        [
            f"{_percent(report['precision'][label]):>7}, {_percent(report['recall'][label]):>7}"
            for label in labels
        ]
        for report in reports
    ]
    widths = [len(word) for word in _HEADING]
    empty = [" " * size for size in widths]
    return [
        _line([*empty, *(label.rjust(width) for label in labels)]),
        _line([*_HEADING, *(_CLASS.rjust(width) for _ in labels)]),
        *(
            _line(
                [
                    *(word.rjust(size) for word, size in zip(row, widths, strict=True)),
                    *(cell.rjust(width) for cell in found),
                ]
            )
            for row, found in zip(rows, cells, strict=True)
        ),
    ]


def _line(cells: Sequence[str]) -> str:
    return "  ".join(cells)


def _percent(share: float | None) -> str:
    return "none" if share is None else f"{share:.2%}"
