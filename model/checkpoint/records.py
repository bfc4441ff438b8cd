"""Defines the records in `headlight.json`: data, figures, precision, baseline and thresholds.

Legend: N texts.
"""

import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Literal, Self, TypedDict

from pydantic import (
    AfterValidator,
    BaseModel,
    ConfigDict,
    Field,
    NonNegativeInt,
    PositiveInt,
    model_validator,
)

LONGEST_NAME = 200  # characters of the name of a set
#: the way in which int8 quantizes weights; the first one had a scale of 127 steps for each column
INT8_SCHEME = 2
# The upper bounds of bins; the last bin has all that is above. Scores gather near 1.
SCORE_BOUNDS = (0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 0.95, 0.97, 0.98, 0.99)
LENGTH_BOUNDS = (8, 16, 32, 64, 128, 256, 512)
_MOST_BOUNDS = 32  # each bin is a series of each replica
_MOST_THRESHOLDS = 32
# The most that the accuracy may differ from float32's; of fewer rows one row, and this log-loss.
_MOST_POINTS, _MANY_ROWS, _MOST_LOSS, _LEAST_ROWS = 0.2, 500, 0.01, 50
# Squared, the number of standard deviations within which 95 % of a normal distribution lie.
_Z_SQUARED = 1.96**2


class Record(BaseModel):
    """A part of `headlight.json`; a field that it does not know is refused."""

    model_config = ConfigDict(frozen=True, extra="forbid")


def _check_printable(name: str) -> str:
    # The name of a set gets into logs and answers.
    if not name.isprintable():
        raise ValueError("must be printable")
    return name


Share = Annotated[float, Field(ge=0.0, le=1.0)]
Loss = Annotated[float, Field(ge=0.0, allow_inf_nan=False)]
Rows = Annotated[int, Field(gt=0, le=1_000_000_000)]  # bounded, because a float must hold them
Count = Annotated[int, Field(ge=0, le=1_000_000_000_000)]
SetName = Annotated[
    str, Field(min_length=1, max_length=LONGEST_NAME), AfterValidator(_check_printable)
]
Digest = Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]


class DataSource(Record):
    """A file of training data."""

    file: str
    rows: PositiveInt
    sha256: Digest


class Metric(Record):
    """The accuracy on one set, with its 95 % Wilson interval, as it was measured in training.

    `log_loss` is the mean negative log-likelihood after calibration, in nats; `ece` has 15 bins.
    """

    name: str
    rows: PositiveInt
    accuracy: Share
    interval: tuple[Share, Share]
    log_loss: Annotated[float, Field(ge=0.0)]
    ece: Share


class PrecisionSet(Record):
    """How one type of numbers did on one set, beside float32; `log_loss` is in nats."""

    name: SetName
    rows: Rows
    accuracy: Share
    log_loss: Loss
    float32_accuracy: Share
    float32_log_loss: Loss
    lost: NonNegativeInt  # texts that are right in float32 and wrong in the type
    gained: NonNegativeInt  # the other way

    @property
    def change(self) -> int:
        """Right texts that the type has more than float32; below 0 if it has fewer."""
        return self.gained - self.lost

    @property
    def is_worse(self) -> bool:
        """Whether it lost more than chance explains."""
        return self.change < 0 and self.change**2 > _Z_SQUARED * (self.lost + self.gained)


class Precision(Record):
    """What a type of numbers was measured to cost the weights with this SHA-256."""

    dtype: Literal["bfloat16", "int8"]
    weights_sha256: Digest
    processor: str
    torch: str
    scheme: int = 1  # of weights in int8
    sets: tuple[PrecisionSet, ...] = Field(min_length=1)


@dataclass(frozen=True, slots=True)
class Verdict:
    """Whether a type may be chosen by itself, with a clause that says why."""

    allowed: bool
    reason: str


def judge(dtype: str, records: Sequence[Precision]) -> Verdict:
    """Judges by its record whether a type of fewer bits may stand in for float32.

    The accuracy over all rows must be within 0.2 points of float32's; of 50 to 499 rows, within one
    row, and the log-loss within 0.01 nats. No set may get worse by more than chance explains: the
    rows lost minus those gained stay below 1.96 times the root of their sum (McNemar 1947).
    """
    record = next((each for each in records if each.dtype == dtype), None)
    if record is None:
        return Verdict(allowed=False, reason=f"the checkpoint has no record of {dtype}")
    if dtype == "int8" and record.scheme != INT8_SCHEME:
        reason = "the checkpoint's record of int8 comes from an older way to quantize"
        return Verdict(allowed=False, reason=f"{reason}: record it again")
    rows = sum(one.rows for one in record.sets)
    change = sum(one.change for one in record.sets)
    loss = sum(one.rows * (one.log_loss - one.float32_log_loss) for one in record.sets) / rows
    limit, is_near = f"1 row and {_MOST_LOSS} nats", abs(change) <= 1 and abs(loss) <= _MOST_LOSS
    if rows >= _MANY_ROWS:  # compared as whole numbers: 0.2 has no exact float
        is_near = abs(change) * 1000 <= round(_MOST_POINTS * 10) * rows
        limit = f"{_MOST_POINTS} points"
    measured = f"within {limit} of float32 ({100 * change / rows:+.2f} over {rows:,} rows)"
    worse = next((one for one in record.sets if one.is_worse), None)
    allowed = False
    if rows < _LEAST_ROWS:
        reason = f"{dtype} was measured on only {rows} rows, of at least {_LEAST_ROWS}"
    elif not is_near:
        reason = f"{dtype} was not {measured}"
    elif worse is not None:
        reason = (
            f"{dtype} lost {worse.lost} rows of {worse.name} and gained {worse.gained}, "
            "which is more than chance"
        )
    else:
        allowed = True
        reason = f"{dtype} was measured {measured}"
    return Verdict(allowed, reason)


class Baseline(Record):
    """What the texts that a checkpoint was measured on look like, and how it answers them.

    A bin holds what is above the bound before it, up to its own; the last bin has no upper bound.
    """

    weights_sha256: Digest | None = None  # of what answered; None before it is written
    sets: tuple[SetName, ...] = Field(min_length=1)
    rows: Rows
    score_bounds: tuple[Share, ...] = Field(min_length=1, max_length=_MOST_BOUNDS)
    scores: dict[str, tuple[Count, ...]]  # texts that each class is the answer to, by its score
    length_bounds: tuple[PositiveInt, ...] = Field(min_length=1, max_length=_MOST_BOUNDS)
    lengths: tuple[Count, ...]  # texts by their token count
    truncated: Count  # texts of which a part was cut off
    tokens: Count  # that were read, special ones included
    unknown_tokens: Count  # that stand for what the vocabulary lacks

    @model_validator(mode="after")
    def _check_bins(self) -> Self:
        named = [
            (f"scores of {label}", bins, self.score_bounds) for label, bins in self.scores.items()
        ]
        for name, bins, bounds in (*named, ("lengths", self.lengths, self.length_bounds)):
            if any(low >= high for low, high in itertools.pairwise(bounds)):
                raise ValueError(f"the bounds of {name} must ascend")
            if len(bins) != len(bounds) + 1:
                raise ValueError(
                    f"{name} have {len(bins)} bins, must have {len(bounds) + 1}, one per bound"
                )
        return self


class ThresholdReport(TypedDict):
    """What is left of some texts at one threshold; None where nothing can be counted."""

    threshold: float
    rows: int
    share: float
    accuracy: float | None
    precision: dict[str, float | None]  # by class
    recall: dict[str, float | None]  # by class; a text without an answer counts as missed


class Threshold(Record):
    """What is left at one threshold: answers with this score or more, by class."""

    threshold: Share
    answers: dict[str, Count]
    right: dict[str, Count]


class Thresholds(Record):
    """What thresholds on the score leave of the texts that a checkpoint was measured on.

    A model that may abstain trades the share of answers for their accuracy (El-Yaniv and Wiener
    2010).
    """

    weights_sha256: Digest | None = None  # of what answered; None before it is written
    sets: tuple[SetName, ...] = Field(min_length=1)
    rows: Rows
    texts: dict[str, Count]  # that truly have each class
    by_threshold: tuple[Threshold, ...] = Field(min_length=1, max_length=_MOST_THRESHOLDS)

    @model_validator(mode="after")
    def _check_classes(self) -> Self:
        for left, name in itertools.product(self.by_threshold, ("answers", "right")):
            known = getattr(left, name).keys()
            if known != self.texts.keys():
                raise ValueError(
                    f"{name} at {left.threshold} are of {', '.join(known)}, must be of "
                    f"{', '.join(self.texts)}"
                )
        return self

    def reports(self) -> list[ThresholdReport]:
        """The counts as shares, for each threshold."""
        return [self._report(left) for left in self.by_threshold]

    def _report(self, left: Threshold) -> ThresholdReport:
        rows = sum(left.answers.values())
        return {
            "threshold": left.threshold,
            "rows": rows,
            "share": rows / self.rows,
            "accuracy": _share(sum(left.right.values()), rows),
            "precision": {
                label: _share(left.right[label], left.answers[label]) for label in self.texts
            },
            "recall": {label: _share(left.right[label], self.texts[label]) for label in self.texts},
        }


def _share(part: int, whole: int) -> float | None:
    return part / whole if whole else None
