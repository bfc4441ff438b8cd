"""Errors go through `copy` and `pickle`, as process pools and task queues send them."""

import copy
import pickle
from collections.abc import Callable, Iterator

import pytest

from headlight_client import (
    FieldError,
    HeadlightError,
    NoAnswerError,
    Problem,
    ProblemError,
    TimedOutError,
    UnexpectedAnswerError,
)

PROBLEM = Problem("overloaded", 503, "T", "D", (FieldError(("body", 1), "blank"),), 3)


def kinds(base: type[HeadlightError]) -> Iterator[type[HeadlightError]]:
    yield base
    for kind in base.__subclasses__():
        yield from kinds(kind)


ALL = sorted(set(kinds(HeadlightError)), key=lambda kind: kind.__name__)


def through_pickle(error: HeadlightError) -> HeadlightError:
    copied: HeadlightError = pickle.loads(pickle.dumps(error))  # noqa: S301 - made here
    return copied


def made(kind: type[HeadlightError], request_id: str | None) -> HeadlightError:
    if issubclass(kind, ProblemError):
        return kind(PROBLEM, request_id=request_id)
    return kind("what is wrong", request_id=request_id)


def test_the_tree() -> None:
    assert {NoAnswerError, TimedOutError, UnexpectedAnswerError, ProblemError} < set(ALL)
    assert len(ALL) == 9


@pytest.mark.parametrize("request_id", [None, "id-1"])
@pytest.mark.parametrize("again", [through_pickle, copy.copy, copy.deepcopy])
@pytest.mark.parametrize("kind", ALL)
def test_an_error_is_copied_whole(
    kind: type[HeadlightError],
    again: Callable[[HeadlightError], HeadlightError],
    request_id: str | None,
) -> None:
    error = made(kind, request_id)
    error.add_note("of the caller")

    copied = again(error)

    assert type(copied) is kind
    assert str(copied) == str(error)
    assert copied.request_id == request_id
    assert copied.__notes__ == ["of the caller"]
    if isinstance(copied, ProblemError):
        assert copied.problem == PROBLEM
        assert (copied.type, copied.retry_after) == ("overloaded", 3)
