"""Every error of every package goes to another process, and is copied, as it is."""

import copy
import importlib
import inspect
import pickle
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, get_args

import pytest

import headlight_client
from headlight_client.errors import FailedPart, ProblemError, UnavailableError
from model.errors import CheckpointError
from service.errors import InvalidRequestError, OverloadedError, Refusal, invalid

ROOT = Path(__file__).parents[1]
PACKAGES = ("model", "training", "scoring", "service", "benchmarks", "client/headlight_client")
PROBLEM = headlight_client.Problem("overloaded", 503, "Title", "Detail", retry_after=3)
DEFINED = re.compile(r"^class \w+\(.*(?:Error|Exception|Warning|Interrupt|Exit)\b", re.MULTILINE)
# What an error is made with, by the type of an argument.
SAMPLES = {
    str: "what is wrong",
    Path: Path("folder"),
    int: 3,
    list[str]: ["first", "second"],
    headlight_client.Problem: PROBLEM,
}


def error_classes() -> Iterator[type[BaseException]]:
    """Yields the classes of all errors of the packages, public or not."""
    for package in PACKAGES:
        for path in sorted((ROOT / package).rglob("*.py")):
            if not DEFINED.search(path.read_text(encoding="utf-8")):
                continue
            parts = path.relative_to(ROOT).with_suffix("").parts
            name = ".".join(parts).removeprefix("client.")
            for kind in vars(importlib.import_module(name)).values():
                is_error = inspect.isclass(kind) and issubclass(kind, BaseException)
                if is_error and kind.__module__ == name:
                    yield kind


def sample(kind: type[BaseException]) -> BaseException:
    """Makes an error with each argument of a type that has a sample."""
    given: list[object] = []
    named: dict[str, object] = {}
    for name, parameter in list(inspect.signature(kind.__init__).parameters.items())[1:]:
        kinds = (parameter.annotation, *get_args(parameter.annotation))
        value = next((SAMPLES[each] for each in kinds if each in SAMPLES), None)
        if parameter.kind is parameter.KEYWORD_ONLY and value is not None:
            named[name] = value
        elif parameter.kind is parameter.VAR_POSITIONAL or value is not None:
            given.append(value or "what is wrong")
    return kind(*given, **named)


def in_part() -> ProblemError:
    error = UnavailableError(PROBLEM, request_id="id-1")
    error.part = FailedPart(1, 2, 3, (None, None, None))
    return error


CLASSES = list(error_classes())
ERRORS = [
    *map(sample, CLASSES),
    in_part(),
    invalid(("body", "sentences", 1), "is blank"),
    OverloadedError(
        "full", retry_after=3, refusal=Refusal.MEMORY, headers={"A": "b"}, fits={"a": 1}
    ),
]


def test_the_classes_are_found() -> None:
    assert {CheckpointError, ProblemError, InvalidRequestError} < set(CLASSES)
    assert len(CLASSES) > 50


@pytest.mark.parametrize("error", ERRORS, ids=lambda error: type(error).__name__)
@pytest.mark.parametrize(
    "again",
    [lambda error: pickle.loads(pickle.dumps(error)), copy.copy, copy.deepcopy],  # noqa: S301 - its own
    ids=["pickle", "copy", "deepcopy"],
)
def test_an_error_is_made_again_whole(
    error: BaseException, again: Callable[[Any], BaseException]
) -> None:
    noted = copy.copy(error)
    noted.add_note("of the caller")
    copied = again(noted)
    assert type(copied) is type(error)
    assert (str(copied), repr(copied), copied.args) == (str(error), repr(error), error.args)
    assert vars(copied) == {**vars(error), "__notes__": ["of the caller"]}
