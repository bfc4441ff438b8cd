"""Hears what the service answers to the page, to compare what is shown with it."""

from collections.abc import Callable
from typing import Any

from tests.browser.visits import Visit


def heard(visit: Visit, act: Callable[[], None], path: str = "predict") -> dict[str, Any]:
    """The answer to the question to a path that an action leads to, with what was asked.

    Args:
        visit: whose question.
        act: what leads to exactly this question.
        path: the last part of its address.
    """
    with visit.page.expect_response(f"**/{path}") as waiting:
        act()
    answer: dict[str, Any] = waiting.value.json()
    return {**answer, "asked": waiting.value.request.post_data_json}


def percent(share: float) -> str:
    """A share as the page writes it."""
    return f"{100 * share:.1f} %"


def signed(value: float, digits: int) -> str:
    """A number with its sign, as the page writes it."""
    sign = "\N{MINUS SIGN}" if value < 0 else "+"
    return f"{sign}{abs(value):.{digits}f}"
