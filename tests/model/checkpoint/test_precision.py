"""What a record of precision must show before `auto` may choose the type."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from model.checkpoint.manifest import PrecisionSet
from model.checkpoint.precision import LEAST_ROWS, judge
from tests.builders import precision, precision_set


@st.composite
def sets(draw: st.DrawFn, name: str = "dev") -> PrecisionSet:
    rows = draw(st.integers(1, 30_000))
    right = draw(st.integers(0, rows))
    lost = draw(st.integers(0, min(right, 60)))
    gained = draw(st.integers(0, min(rows - right, 60)))
    return precision_set(name, rows=rows, right=right, lost=lost, gained=gained)


@pytest.mark.parametrize(
    ("measured", "allowed", "reason"),
    [
        # Two rows of a thousand are exactly 0.2 points, whatever a float makes of it.
        ((precision_set(lost=2),), True, "int8 was measured within 0.2 points of float32 (-0.20"),
        ((precision_set(gained=2),), True, "int8 was measured within 0.2 points of float32 (+0.20"),
        ((precision_set(lost=3),), False, "int8 was not within 0.2 points of float32 (-0.30 over"),
        # So many answers turned that the gain is luck: the network is another one.
        ((precision_set(gained=3),), False, "int8 was not within 0.2 points of float32 (+0.30"),
        ((precision_set(rows=500, lost=1, right=9),), True, "int8 was measured within 0.2 points"),
        (
            (precision_set(rows=499, right=9),),
            False,
            "int8 was measured on only 499 rows, of at least 500",
        ),
        # The others cannot make up for a set that got worse by more than chance.
        (
            (precision_set("a", lost=4), precision_set("b", rows=9000, gained=4)),
            False,
            "int8 lost 4 rows of a and gained 0, which is more than chance",
        ),
        ((precision_set("a", lost=3), precision_set("b")), True, "int8 was measured within 0.2"),
        (
            (precision_set("a", lost=20, gained=13), precision_set("b", rows=9000, gained=7)),
            True,
            "int8 was measured within 0.2 points of float32 (+0.00 over 10,000 rows)",
        ),
    ],
)
def test_the_bounds(measured: tuple[PrecisionSet, ...], *, allowed: bool, reason: str) -> None:
    verdict = judge("int8", [precision(*measured)])

    assert (verdict.allowed, verdict.reason[: len(reason)]) == (allowed, reason)


def test_each_type_has_its_own_record() -> None:
    other = precision(dtype="bfloat16")

    assert judge("int8", []).reason == "the checkpoint has no record of int8"
    assert judge("int8", [other]).reason == "the checkpoint has no record of int8"
    assert not judge("int8", [other]).allowed
    assert judge("bfloat16", [precision(precision_set(lost=9)), other]).allowed


@given(one=sets("a"), other=sets("b"))
def test_what_is_allowed_keeps_its_promise(one: PrecisionSet, other: PrecisionSet) -> None:
    """Whatever was measured; the words of the rule, said in another way."""
    record = precision(one, other)
    rows = one.rows + other.rows
    right = sum(round(each.accuracy * each.rows) for each in (one, other))
    exact = sum(round(each.float32_accuracy * each.rows) for each in (one, other))

    # Exactly 0.2 points are allowed, so the float's last digit must not decide.
    is_near = 5 * abs(right - exact) * 100 <= rows
    is_chance = all(
        each.lost - each.gained <= 1.96 * math.sqrt(each.lost + each.gained)
        for each in (one, other)
    )
    verdict = judge("int8", [record])
    assert verdict.allowed is (rows >= LEAST_ROWS and is_near and is_chance)
    assert verdict.reason.startswith("int8 ")
    assert not verdict.reason.endswith(".")
