"""Counts what a threshold on the score leaves: how much is answered, and how well.

A model that may abstain trades the share of answers for their accuracy (El-Yaniv and Wiener 2010).
Legend: N texts, C classes.
"""

import itertools
from collections.abc import Mapping, Sequence
from typing import Self, TypedDict

import numpy as np
from numpy.typing import NDArray
from pydantic import Field, model_validator

from model.checkpoint.record_types import Count, Digest, Record, Rows, SetName, Share

_ALL = 0.0
_THRESHOLDS = (0.5, 0.6, 0.7, 0.8, 0.9, 0.95, 0.98, 0.99)
_MOST_THRESHOLDS = 32


class ThresholdReport(TypedDict):
    """What is left of some texts at one threshold; None where nothing can be counted.

    `precision` and `recall` are by class. Recall counts a text without an answer as missed.
    """

    threshold: float
    rows: int
    share: float
    accuracy: float | None
    precision: dict[str, float | None]
    recall: dict[str, float | None]


class Threshold(Record):
    """What is left at one threshold: answers with this score or more, by class."""

    threshold: Share
    answers: dict[str, Count]
    right: dict[str, Count]


class Thresholds(Record):
    """What thresholds leave of the texts that a checkpoint was measured on.

    Args:
        weights_sha256: SHA-256 of the weights file that answered; None before it is written.
        texts: for each class, how many texts truly have it.
        by_threshold: counts at each threshold, ascending.
    """

    weights_sha256: Digest | None = None
    sets: tuple[SetName, ...] = Field(min_length=1)
    rows: Rows
    texts: dict[str, Count]
    by_threshold: tuple[Threshold, ...] = Field(min_length=1, max_length=_MOST_THRESHOLDS)

    def reports(self) -> list[ThresholdReport]:
        """The counts as shares, for each threshold."""
        return _reports(self.texts, self.by_threshold)

    @model_validator(mode="after")
    def _check_counts(self) -> Self:
        if sum(self.texts.values()) != self.rows:
            raise ValueError(
                f"texts count {sum(self.texts.values())}, and rows is {self.rows}: must be the same"
            )
        for left in self.by_threshold:
            self._check_one(left)
        for lower, higher in itertools.pairwise(self.by_threshold):
            if lower.threshold >= higher.threshold:
                raise ValueError("the thresholds must ascend")
            for name, label in itertools.product(("answers", "right"), self.texts):
                if getattr(higher, name)[label] > getattr(lower, name)[label]:
                    raise ValueError(
                        f"{name} of {label} are more at {higher.threshold} than at "
                        f"{lower.threshold}: a higher threshold leaves fewer"
                    )
        return self

    def _check_one(self, left: Threshold) -> None:
        place = f"at {left.threshold}"
        for name, counts in (("answers", left.answers), ("right", left.right)):
            if counts.keys() != self.texts.keys():
                raise ValueError(
                    f"{name} {place} are of {', '.join(counts)}, must be of {', '.join(self.texts)}"
                )
        for label, right in left.right.items():
            most = min(left.answers[label], self.texts[label])
            if right > most:
                raise ValueError(f"right of {label} {place} is {right}, must be at most {most}")
        answered = sum(left.answers.values())
        if answered > self.rows:
            raise ValueError(f"answers {place} are {answered}, must be at most {self.rows}")


def count_thresholds(
    probabilities: NDArray[np.floating],
    label_ids: NDArray[np.integer],
    *,
    labels: Sequence[str],
    sets: Sequence[str],
) -> Thresholds:
    """Counts the answers whose score is a threshold or more; see `threshold_reports`."""
    texts, by_threshold = _count(probabilities, label_ids, labels)
    return Thresholds(
        sets=tuple(sets), rows=len(probabilities), texts=texts, by_threshold=by_threshold
    )


def threshold_reports(
    probabilities: NDArray[np.floating], label_ids: NDArray[np.integer], labels: Sequence[str]
) -> list[ThresholdReport]:
    """Measures the answers whose score is a threshold or more, for thresholds from 0.5 to 0.99.

    With more than two classes a score may be below 0.5, so there the first threshold is 0.

    Args:
        probabilities: of every class, each row summing to 1 [N, C]; N is at least 1.
        label_ids: the true classes [N].
        labels: names of the classes, in order.
    """
    return _reports(*_count(probabilities, label_ids, labels))


def _count(
    probabilities: NDArray[np.floating], label_ids: NDArray[np.integer], labels: Sequence[str]
) -> tuple[dict[str, int], tuple[Threshold, ...]]:
    """The texts of each class, and what each threshold leaves."""

    def by_label(classes: NDArray[np.integer]) -> dict[str, int]:
        counts = np.bincount(classes, minlength=len(labels)).tolist()  # [C]
        return dict(zip(labels, counts, strict=True))

    scores, predicted = probabilities.max(axis=1), probabilities.argmax(axis=1)  # [N]
    thresholds = _THRESHOLDS if len(labels) == 2 else (_ALL, *_THRESHOLDS)
    left = tuple(
        Threshold(
            threshold=threshold,
            answers=by_label(predicted[scores >= threshold]),
            right=by_label(predicted[(scores >= threshold) & (predicted == label_ids)]),
        )
        for threshold in thresholds
    )
    return by_label(label_ids), left


def _reports(texts: Mapping[str, int], by_threshold: Sequence[Threshold]) -> list[ThresholdReport]:
    total = sum(texts.values())
    reports: list[ThresholdReport] = []
    for left in by_threshold:
        rows = sum(left.answers.values())
        reports.append(
            {
                "threshold": left.threshold,
                "rows": rows,
                "share": rows / total,
                "accuracy": _share(sum(left.right.values()), rows),
                "precision": {
                    label: _share(left.right[label], left.answers[label]) for label in texts
                },
                "recall": {label: _share(left.right[label], texts[label]) for label in texts},
            }
        )
    return reports


def _share(part: int, whole: int) -> float | None:
    return part / whole if whole else None
