"""Judges by its record whether a type of fewer bits may stand in for float32."""

from collections.abc import Sequence
from dataclasses import dataclass

from model.checkpoint.manifest import Precision, PrecisionSet

# The most that the accuracy over all rows may differ from float32's.
MOST_POINTS = 0.2
#: the way in which int8 quantizes weights; the first one had a scale of 127 steps for each column
INT8_SCHEME = 2
# On fewer rows, a single one is more than that.
LEAST_ROWS = 500
# Squared, the number of standard deviations within which 95 % of a normal distribution lie.
_Z_SQUARED = 1.96**2


@dataclass(frozen=True, slots=True)
class Verdict:
    """Whether a type may be chosen by itself, with a clause that says why."""

    allowed: bool
    reason: str


def judge(dtype: str, records: Sequence[Precision]) -> Verdict:
    """Judges a type by what was measured of it.

    The accuracy over all rows must be within `MOST_POINTS` of float32's, over `LEAST_ROWS` rows or
    more. No single set may get worse by more than chance explains (McNemar 1947): the rows lost
    minus those gained must stay below 1.96 times the root of their sum.
    """
    record = next((each for each in records if each.dtype == dtype), None)
    if record is None:
        return Verdict(allowed=False, reason=f"the checkpoint has no record of {dtype}")
    if dtype == "int8" and record.scheme != INT8_SCHEME:
        reason = "the checkpoint's record of int8 comes from an older way to quantize"
        return Verdict(allowed=False, reason=f"{reason}: record it again")
    rows = sum(one.rows for one in record.sets)
    change = sum(one.change for one in record.sets)
    measured = f"{100 * change / rows:+.2f} over {rows:,} rows"
    allowed = False
    if rows < LEAST_ROWS:
        reason = f"{dtype} was measured on only {rows} rows, of at least {LEAST_ROWS}"
    # Compared as whole numbers: 0.2 has no exact float.
    elif abs(change) * 1000 > round(MOST_POINTS * 10) * rows:
        reason = f"{dtype} was not within {MOST_POINTS} points of float32 ({measured})"
    elif worse := next(filter(_is_worse, record.sets), None):
        reason = (
            f"{dtype} lost {worse.lost} rows of {worse.name} and gained {worse.gained}, "
            "which is more than chance"
        )
    else:
        allowed = True
        reason = f"{dtype} was measured within {MOST_POINTS} points of float32 ({measured})"
    return Verdict(allowed, reason)


def _is_worse(one: PrecisionSet) -> bool:
    return one.change < 0 and one.change**2 > _Z_SQUARED * (one.lost + one.gained)
