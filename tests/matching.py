"""Compares whole messages and whole answers."""

import math
import re


def exactly(message: str) -> str:
    return rf"\A{re.escape(message)}\Z"


def near(one: object, other: object, tolerance: float = 1e-5) -> bool:
    """Whether two answers in JSON are the same but for rounding, names in one order."""
    if isinstance(one, float) and isinstance(other, float):
        return math.isclose(one, other, rel_tol=0.0, abs_tol=tolerance)
    if isinstance(one, dict) and isinstance(other, dict):
        return list(one) == list(other) and near([*one.values()], [*other.values()], tolerance)
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(
            near(*pair, tolerance) for pair in zip(one, other, strict=True)
        )
    return type(one) is type(other) and one == other
