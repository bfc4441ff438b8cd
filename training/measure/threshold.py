"""Prints what a threshold on the score leaves, as a table for people."""

from collections.abc import Sequence

from model.checkpoint.thresholds import ThresholdReport

_HEADING = ("threshold", "answered", "accuracy")
_CLASS = "precision, recall"


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
