"""The `curl` lines of the pages, run against a real service, print what the pages say."""

import json
import os
import shutil

import pytest

from tests.documentation.answers import PAGES, agree, ask, curl_examples, shown
from tests.documentation.markdown import Example

EXAMPLES = [
    pytest.param(example, id=f"{page.name}: {example.command[:60]}")
    for page in PAGES
    for example in curl_examples(page)
]


@pytest.fixture(autouse=True)
def _with_curl() -> None:
    if shutil.which("curl") is None:
        reason = "curl is not installed"
        (pytest.fail if "CI" in os.environ else pytest.skip)(reason)


@pytest.mark.parametrize("example", EXAMPLES)
def test_the_service_answers_as_the_page_says(url: str, example: Example) -> None:
    answer = ask(example, url)

    assert agree(answer, json.loads(example.output)), f"it answers {shown(answer)}"


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        ({"a": [1, 0.5]}, {"a": [1, 0.51]}, True),
        ({"a": 0.5}, {"a": 0.53}, False),
        ({"a": 1}, {"a": True}, False),
        ({"a": 1, "b": 2}, {"b": 2, "a": 1}, False),
        (["x"], ["x", "y"], False),
    ],
)
def test_answers_agree_only_if_all_but_late_digits_is_equal(
    one: object, other: object, *, same: bool
) -> None:
    assert agree(one, other) is same
